#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <vector>

#include "kernels/kernels_testing.h"

namespace quire {
namespace {

using testing::Floats;
using testing::on_every_tier;
using testing::random_floats;

TEST(KvWrite, SaysWhetherEveryValueIsFiniteInItsType) {
  const float above_f16 = std::nextafter(65520.0f, 0.0f);  // rounds to 65504
  const float above_bf16 = std::nextafter(0x1.ffp127f, 0.0f);
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16}) {
    const KvLayout layout = {type, type, 2, 20, 16};
    for (const float value :
         {0.0f, -65504.0f, above_f16, 65520.0f, -65520.0f, 1e30f, above_bf16, 0x1.ffp127f,
          -0x1.ffp127f, FLT_MAX, INFINITY, -INFINITY, std::nanf(""), -std::nanf("")}) {
      float stored = value;
      if (type == KvType::kF16) stored = f16_to_f32(f32_to_f16(value));
      if (type == KvType::kBF16) stored = bf16_to_f32(f32_to_bf16(value));
      for (const std::size_t at : {std::size_t{0}, std::size_t{17}, std::size_t{39}}) {
        for (const bool in_k : {false, true}) {
          Floats k = random_floats(40, 1);
          Floats v = random_floats(40, 2);
          (in_k ? k : v)[at] = value;
          for (const Kernels* table : available_kernels()) {
            std::vector<std::byte> page(layout.page_bytes());
            EXPECT_EQ(table->kv_write(layout, page.data(), 3, k.data(), v.data()),
                      std::isfinite(stored))
                << table->name << " " << kv_type_name(type) << " " << value;
          }
        }
      }
    }
  }
}

TEST(KvWrite, ConvertsLikeTheScalarRoutinesOnEveryTier) {
  Floats values = random_floats(200, 5);
  for (const float special : {0.0f, -0.0f, 1e-8f, 6e-8f, 1e-5f, 65504.0f, 65520.0f, 1e30f, -1e30f,
                              1e-40f, INFINITY, -INFINITY, std::nanf("")}) {
    values.push_back(special);
    values.push_back(special * 1.0009765625f);
  }
  values.resize(226);
  const auto head_dim = static_cast<std::uint32_t>(values.size());
  for (const KvType type : {KvType::kF16, KvType::kBF16}) {
    const KvLayout layout = {type, type, 1, head_dim, 32};
    const std::size_t slot = 21;
    const auto page = on_every_tier([&](const Kernels& table) {
      std::vector<std::uint16_t> bits(layout.page_bytes() / 2, 0x1234);
      table.kv_write(layout, reinterpret_cast<std::byte*>(bits.data()), slot, values.data(),
                     values.data());
      return bits;
    });
    std::size_t written = 0;
    for (std::size_t d = 0; d < head_dim; ++d) {
      std::uint16_t expected = f32_to_f16(values[d]);
      std::size_t k_at = (slot / 16 * head_dim + d) * 16 + slot % 16;
      std::size_t v_at = slot * head_dim + d;
      if (type == KvType::kBF16) {  // in pairs, and subnormal numbers are zero
        const bool tiny = std::fabs(values[d]) < FLT_MIN;
        expected = f32_to_bf16(tiny ? std::copysign(0.0f, values[d]) : values[d]);
        k_at = (slot / 16 * head_dim / 2 + d / 2) * 32 + slot % 16 * 2 + d % 2;
        v_at = (slot / 2 * head_dim + d) * 2 + slot % 2;
      }
      EXPECT_EQ(page[k_at], expected) << values[d];
      EXPECT_EQ(page[layout.v_offset(0) / 2 + v_at], expected) << values[d];
    }
    for (const std::uint16_t bits : page) written += bits != 0x1234;
    EXPECT_EQ(written, 2 * head_dim);
  }
}

}  // namespace
}  // namespace quire
