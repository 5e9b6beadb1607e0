#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/tensor_type.h"

namespace quire {
namespace {

constexpr TensorType kAllTypes[] = {
    TensorType::kF32,  TensorType::kF16,  TensorType::kBF16, TensorType::kQ8_0,  TensorType::kQ4_0,
    TensorType::kQ4_1, TensorType::kQ5_0, TensorType::kQ5_1, TensorType::kQ2_K,  TensorType::kQ3_K,
    TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kQ6_K, TensorType::kIQ4_NL};

class Dequantize : public ::testing::TestWithParam<TensorType> {};

// Fixtures: random blocks, then what the `gguf` Python package makes of them, in f32
// (tests/oracle/gguf_blocks.py).
TEST_P(Dequantize, EqualsTheGgufPackageBitForBit) {
  const TensorTypeInfo& info = tensor_type_info(GetParam());
  const std::string path =
      std::string(QUIRE_TEST_DATA) + "/gguf/blocks_" + std::string(info.name) + ".bin";
  std::ifstream in(path, std::ios::binary);
  ASSERT_TRUE(in) << path;
  const std::string file{std::istreambuf_iterator<char>(in), {}};

  const std::size_t per_block = info.block_bytes + info.block_size * sizeof(float);
  ASSERT_EQ(file.size() % per_block, 0u);
  const std::size_t n_blocks = file.size() / per_block;
  ASSERT_GE(n_blocks, 8u);
  const std::size_t n = n_blocks * info.block_size;

  std::vector<float> expected(n);
  std::memcpy(expected.data(), file.data() + n_blocks * info.block_bytes, n * sizeof(float));
  std::vector<float> actual(n, -1.0f);
  dequantize(GetParam(), reinterpret_cast<const std::byte*>(file.data()), n, actual.data());
  for (std::size_t i = 0; i < n; ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(actual[i]), std::bit_cast<std::uint32_t>(expected[i]))
        << "element " << i << ": " << actual[i] << " instead of " << expected[i];
}

INSTANTIATE_TEST_SUITE_P(AllTypes, Dequantize, ::testing::ValuesIn(kAllTypes),
                         [](const auto& p) { return std::string(tensor_type_info(p.param).name); });

TEST(TensorType, KnowsExactlyItsOwnIds) {
  for (const TensorType type : kAllTypes)
    EXPECT_EQ(tensor_type_from_id(static_cast<std::uint32_t>(type)), type);
  std::size_t known = 0;
  for (std::uint32_t id = 0; id < 1000; ++id) known += tensor_type_from_id(id).has_value();
  EXPECT_EQ(known, std::size(kAllTypes));
  EXPECT_FALSE(tensor_type_from_id(0xffffffffu).has_value());
}

}  // namespace
}  // namespace quire
