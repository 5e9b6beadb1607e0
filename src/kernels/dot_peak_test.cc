#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/float16.h"
#include "kernels/kernels.h"
#include "kernels/kernels_testing.h"

namespace quire {
namespace {

// What is measured is really computed: every round, token, row and column.
TEST(DotPeak, ComputesWhatItSaysInEveryTier) {
  std::array<std::byte, 128> weights;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<std::byte>(i * 7 % 16);
  }
  std::vector<std::int8_t> x(kDotPeakTokens * 8);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<std::int8_t>(static_cast<int>(i * 37 % 255) - 127);
  }
  for (const Kernels* table : testing::tested_kernels()) {
    for (const int n_rounds : {0, 1, 9}) {
      std::vector<std::int32_t> out(kDotPeakTokens * kPanelRows, -1);
      table->dot_peak(weights.data(), x.data(), static_cast<std::size_t>(n_rounds), out.data());
      for (std::size_t t = 0; t < kDotPeakTokens; ++t) {
        for (std::size_t r = 0; r < kPanelRows; ++r) {
          int expected = 0;
          for (std::size_t c = 0; c < 8; ++c) {
            expected += static_cast<int>(weights[c / 4 * 64 + r * 4 + c % 4]) * x[t * 8 + c];
          }
          EXPECT_EQ(out[t * kPanelRows + r], n_rounds * expected) << table->name << " " << t;
        }
      }
    }
  }
}

// Small integers: exact in bf16, and their sums in f32.
TEST(PairPeak, ComputesWhatItSaysWhereThereIsOne) {
  std::array<std::uint16_t, 64> weights;
  std::array<std::uint16_t, kDotPeakTokens * 4> x;
  const auto weight = [](std::size_t i) { return static_cast<float>(i * 7 % 16); };
  const auto column = [](std::size_t i) { return static_cast<float>(i * 5 % 13) - 6; };
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = f32_to_bf16(weight(i));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = f32_to_bf16(column(i));
  for (const Kernels* table : testing::tested_kernels()) {
    EXPECT_EQ(table->pair_peak != nullptr, table->name == "avx512bf16") << table->name;
    if (table->pair_peak == nullptr) continue;
    for (const int n_rounds : {0, 1, 9}) {
      std::vector<float> out(kDotPeakTokens * kPanelRows, -1);
      table->pair_peak(weights.data(), x.data(), static_cast<std::size_t>(n_rounds), out.data());
      for (std::size_t t = 0; t < kDotPeakTokens; ++t) {
        for (std::size_t r = 0; r < kPanelRows; ++r) {
          float expected = 0;
          for (std::size_t c = 0; c < 4; ++c) {
            expected += weight(c / 2 * 32 + r * 2 + c % 2) * column(t * 4 + c);
          }
          EXPECT_EQ(out[t * kPanelRows + r], static_cast<float>(n_rounds) * expected);
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire
