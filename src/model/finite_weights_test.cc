// Every place of every block format where 16 bits can make a weight infinite. Which places those
// are is asked of dequantize(), which knows nothing of the check.

#include "model/finite_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "model/gguf.h"
#include "model/weights.h"

namespace quire {
namespace {

// Infinities and NaNs of f16 and bf16, and the largest f16.
constexpr std::uint16_t kBits[] = {0x7c00, 0xfc00, 0x7e01, 0x7f80, 0xffc0, 0x7bff};

constexpr TensorType kAll[] = {
    TensorType::kF32,  TensorType::kF16,  TensorType::kBF16, TensorType::kQ4_0,  TensorType::kQ4_1,
    TensorType::kQ5_0, TensorType::kQ5_1, TensorType::kQ8_0, TensorType::kQ2_K,  TensorType::kQ3_K,
    TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kQ6_K, TensorType::kIQ4_NL};

TEST(FiniteWeights, FindsExactlyWhatDequantizesToInfinityOrNaN) {
  ThreadPool pool(3);
  for (const TensorType type : kAll) {
    const TensorTypeInfo& info = tensor_type_info(type);
    constexpr std::size_t kBlocks = 7;
    int found = 0;
    // Every field 1, so that no scale is multiplied away by a zero.
    const std::vector<std::byte> ones(kBlocks * info.block_bytes, std::byte{1});
    EXPECT_EQ(find_not_finite(type, ones, pool), std::nullopt) << info.name;
    for (std::size_t at = 0; at + 2 <= info.block_bytes; at += 2) {
      for (const std::uint16_t bits : kBits) {
        auto data = ones;
        std::memcpy(data.data() + 4 * info.block_bytes + at, &bits, 2);
        std::vector<float> values(kBlocks * info.block_size);
        dequantize(type, data.data(), values.size(), values.data());
        const bool finite =
            std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
        const auto bad = find_not_finite(type, data, pool);
        EXPECT_EQ(bad.has_value(), !finite) << info.name << ", bits at " << at;
        EXPECT_EQ(bad.value_or(4 * info.block_size), 4 * info.block_size) << info.name;
        found += finite ? 0 : 1;
      }
    }
    EXPECT_GT(found, 0) << info.name;
  }
}

std::vector<std::byte> model_bytes() {
  std::ifstream in(QUIRE_TEST_DATA "/tiny/llama_mha_d64.gguf", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_FALSE(text.empty());
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

// Pages of a mapped file are given back once packed; other memory would come back as zeros.
TEST(FiniteWeights, LoadingFromMemoryLeavesItAsItWas) {
  const std::vector<std::byte> bytes = model_bytes();
  const std::vector<std::byte> before = bytes;
  const auto file = GgufFile::parse(bytes, "m.gguf");
  ASSERT_TRUE(file.has_value());
  const auto spec = read_model_spec(*file);
  ASSERT_TRUE(spec.has_value());
  ThreadPool pool(2);
  ASSERT_TRUE(load_weights(*file, *spec, Precision::kFast, pool, {}).has_value());
  EXPECT_TRUE(bytes == before);
}

TEST(FiniteWeights, AModelWithOneIsRefusedByName) {
  const std::vector<std::byte> bytes = model_bytes();
  ThreadPool pool(2);
  for (const char* name : {"token_embd.weight", "blk.0.attn_norm.weight", "blk.1.ffn_down.weight",
                           "blk.0.attn_q.weight", "output_norm.weight", "output.weight"}) {
    auto damaged = bytes;
    std::size_t at = 0;
    std::size_t size = 0;
    {
      const auto file = GgufFile::parse(bytes, "m.gguf");
      ASSERT_TRUE(file.has_value());
      const GgufTensor* tensor = file->find_tensor(name);
      ASSERT_NE(tensor, nullptr) << name;
      size = tensor_type_info(tensor->type).block_bytes;
      ASSERT_LE(size, sizeof(float)) << name;  // plain floats or halves
      at = static_cast<std::size_t>(tensor->data.data() - bytes.data()) + 5 * size;
    }
    std::memset(damaged.data() + at, 0xff, size);  // NaN in every float format
    const auto file = GgufFile::parse(damaged, "m.gguf");
    ASSERT_TRUE(file.has_value());
    const auto spec = read_model_spec(*file);
    ASSERT_TRUE(spec.has_value());
    // The short ones are found before anything large is read.
    const bool is_short = std::string_view(name).find("norm") != std::string_view::npos;
    EXPECT_EQ(check_tensors(*file, *spec).has_value(), !is_short) << name;
    const auto weights = load_weights(*file, *spec, Precision::kFast, pool, {});
    ASSERT_FALSE(weights.has_value()) << name;
    const std::string& message = weights.error().message;
    EXPECT_NE(message.find(name), std::string::npos) << message;
    EXPECT_NE(message.find("element 5 "), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace quire
