#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "kernels/kernels_testing.h"

namespace quire {
namespace {

using testing::Floats;
using testing::on_every_tier;
using testing::random_floats;

testing::QuantizedRows quantize_on_every_tier(const Floats& x, std::size_t n_cols) {
  on_every_tier(
      [&](const Kernels& table) { return testing::quantize_rows(table, x, n_cols).integers(); });
  on_every_tier(
      [&](const Kernels& table) { return testing::quantize_rows(table, x, n_cols).floats(); });
  return testing::quantize_rows(*available_kernels().front(), x, n_cols);
}

/// Largest magnitude of columns [begin, end).
double amax_of(const Floats& x, std::size_t begin, std::size_t end) {
  double out = 0;
  for (std::size_t i = begin; i < end; ++i) out = std::max(out, std::fabs(double{x[i]}));
  return out;
}

/// What activations.h says of the outlier lines of every block, by trying every choice.
std::vector<std::uint8_t> best_lines(const Floats& x) {
  const std::size_t n_blocks = x.size() / 32;
  double mean = 0;
  for (std::size_t b = 0; b < n_blocks; ++b) {
    const double a = amax_of(x, 32 * b, 32 * b + 32);
    mean += a * a / static_cast<double>(n_blocks);
  }
  std::vector<std::uint8_t> out(n_blocks);
  for (std::size_t b = 0; b < n_blocks; ++b) {
    double most = 0;
    const double amax = amax_of(x, 32 * b, 32 * b + 32);
    for (unsigned lines = 0; lines < 256; ++lines) {
      const auto n = static_cast<std::size_t>(std::popcount(lines));
      if (n > kMaxOutlierLines) continue;
      double rest = 0;
      for (std::size_t l = 0; l < 8; ++l) {
        if ((lines >> l & 1) == 0) {
          rest = std::max(rest, amax_of(x, 32 * b + 4 * l, 32 * b + 4 * l + 4));
        }
      }
      const double saved = amax * amax - rest * rest - static_cast<double>(n) * kOutlierGain * mean;
      if (saved > most) {
        most = saved;
        out[b] = static_cast<std::uint8_t>(lines);
      }
    }
  }
  return out;
}

/// Every value is what its level says to within half a step, every block what is said of it.
void expect_quantized(const Floats& x, const testing::QuantizedRows& rows) {
  const auto lines = best_lines(x);
  for (std::size_t b = 0; b < x.size() / 32; ++b) {
    const double amax = amax_of(x, 32 * b, 32 * b + 32);
    const bool tiny = amax < 1e-30;
    EXPECT_EQ(rows.lines(0, b), tiny ? 0 : lines[b]) << b;
    double rest = amax / kCoarseSteps;
    std::int32_t sum = 0;
    std::int32_t half_sum = 0;
    for (std::size_t i = 0; i < 32; ++i) {
      const bool outlier = (rows.lines(0, b) >> i / 4 & 1) != 0;
      if (!outlier) {
        rest = std::max(rest, std::fabs(double{x[32 * b + i]}));
        EXPECT_EQ(rows.coarse(0, 32 * b + i), 0);
        EXPECT_LE(std::abs(rows.level(0, 32 * b + i)), 127);
      }
      // AVX2 moves signs between factors, which -128 would not survive.
      EXPECT_LE(std::abs(rows.coarse(0, 32 * b + i)), 127);
      EXPECT_LE(std::abs(rows.level(0, 32 * b + i) - kCoarseSteps * rows.coarse(0, 32 * b + i)),
                127);
      sum += rows.level(0, 32 * b + i);
      if (i < 16) half_sum += rows.level(0, 32 * b + i);
    }
    const std::size_t at = rows.view().block(0, b);
    EXPECT_EQ(rows.view().sum[at], sum);
    EXPECT_EQ(rows.view().half_sum[at], half_sum);
    EXPECT_EQ(rows.view().scaled_sum[at], rows.scale(0, b) * static_cast<float>(sum));
    EXPECT_NEAR(rows.scale(0, b), tiny ? 0 : rest / 127, rest / 127 * 2e-7);
    for (std::size_t i = 32 * b; i < 32 * b + 32; ++i) {
      const std::int32_t level = rows.level(0, i);
      if (tiny) {
        EXPECT_EQ(level, 0);
      } else {
        // 127 / rest and the product are each rounded: a tie may fall to either side.
        EXPECT_LE(std::fabs(double{x[i]} * 127 / rest - level), 0.5 + std::abs(level) * 2e-7);
      }
    }
  }
}

TEST(QuantizeRow, RoundsToTheNearestLevelPer32) {
  const std::size_t n = 640;
  Floats x = random_floats(n, 1);
  for (std::size_t i = 0; i < 32; ++i) x[i] = 0;         // an empty block
  for (std::size_t i = 32; i < 64; ++i) x[i] *= 1e-36f;  // too small to scale
  x[70] = 40;                                            // one outlier
  x[100] = -50;                                          // two, in lines of their own
  x[121] = 30;
  x[131] = 1e4f;  // further out than the coarse term reaches
  for (std::size_t i = 160; i < 192; ++i) x[i] = (static_cast<float>(i - 160) + 0.5f) / 16;  // ties
  for (const std::size_t i : {163, 175, 191}) x[i] = 127.0f / 16;  // in more lines than may be out
  expect_quantized(x, quantize_on_every_tier(x, n));
  x[131] = 1;
  const auto rows = quantize_on_every_tier(x, n);
  expect_quantized(x, rows);
  EXPECT_EQ(rows.lines(0, 2), 1 << 1);
  EXPECT_EQ(rows.lines(0, 3), 1 << 1 | 1 << 6);
  for (std::size_t i = 160; i < 192; ++i) {
    if (rows.level(0, i) == 127) continue;
    EXPECT_EQ(rows.level(0, i) % 2, 0) << "ties go to even, " << i;
  }
}

TEST(QuantizeRow, OutlierLinesAreTheBestChoice) {
  EXPECT_TRUE(rc::check([] {
    const auto seed = *rc::gen::inRange<std::uint32_t>(0, 1u << 30);
    Floats x = random_floats(32 * *rc::gen::inRange<std::size_t>(1, 12), seed);
    // Heavy tails, so that a block has none, one or several.
    for (float& v : x) v = v * v * v;
    expect_quantized(x, testing::quantize_rows(kernels(), x, x.size()));
    RC_ASSERT(!::testing::Test::HasFailure());
  }));
}

TEST(QuantizeRow, TokensOfATileDoNotMeet) {
  const std::size_t n = 96;
  const Floats x = random_floats(19 * n, 5, 3);
  const auto all = quantize_on_every_tier(x, n);
  for (std::size_t t = 0; t < 19; ++t) {
    const Floats row(x.begin() + static_cast<std::ptrdiff_t>(t * n),
                     x.begin() + static_cast<std::ptrdiff_t>((t + 1) * n));
    const auto alone = testing::quantize_rows(*available_kernels().front(), row, n);
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(all.level(t, i), alone.level(0, i));
    for (std::size_t b = 0; b < n / 32; ++b) EXPECT_EQ(all.scale(t, b), alone.scale(0, b));
  }
}

TEST(QuantizeRow, NothingIsLeftOfWhatWasThereBefore) {
  for (const Kernels* table : testing::tested_kernels()) {
    testing::QuantizedRows used;
    std::size_t n_outliers = 0;
    for (std::uint32_t round = 0; round < 40; ++round) {
      const std::size_t n = 32 * (1 + round % 5);
      Floats x = random_floats(n * (1 + round % 11), round);
      for (float& v : x) v = round % 3 == 0 ? v * v * v : v;  // with outliers
      testing::quantize_rows(*table, x, n, used);
      const auto fresh = testing::quantize_rows(*table, x, n);
      ASSERT_EQ(used.integers(), fresh.integers()) << table->name << ", round " << round;
      ASSERT_EQ(used.floats(), fresh.floats()) << table->name;
      for (std::size_t b = 0; b < n / 32; ++b) n_outliers += used.lines(0, b) != 0;
    }
    EXPECT_GT(n_outliers, 5u);
  }
}

TEST(QuantizeRow, WhatIsNotFiniteIsNotHidden) {
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    Floats x = random_floats(64, 3);
    x[7] = bad;
    const auto rows = quantize_on_every_tier(x, 64);
    EXPECT_FALSE(std::isfinite(rows.scale(0, 0)));
    EXPECT_TRUE(std::isfinite(rows.scale(0, 1)));
  }
}

}  // namespace
}  // namespace quire
