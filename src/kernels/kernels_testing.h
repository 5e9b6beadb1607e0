#pragma once
// Shared by the kernel tests: random data with fixed seeds, and comparisons bit for bit.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/float16.h"
#include "kernels/kernels.h"

namespace quire::testing {

using Floats = std::vector<float>;

inline Floats random_floats(std::size_t n, std::uint32_t seed, float spread = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, spread);
  Floats out(n);
  for (float& x : out) x = normal(generator);
  return out;
}

inline std::vector<std::byte> random_bytes(std::size_t n, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<std::byte> out(n);
  for (std::byte& b : out) b = static_cast<std::byte>(generator() & 0xffu);
  return out;
}

/// Equal bits, so that NaN equals NaN and -0 differs from 0; names the first difference.
template <typename T>
::testing::AssertionResult same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) {
      return ::testing::AssertionFailure()
             << "element " << i << " of " << a.size() << ": " << +a[i] << " and " << +b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

/// Runs `compute(table)` on every tier and asserts the bits of its result; returns the scalar one.
template <typename F>
auto on_every_tier(F compute) {
  const auto tiers = available_kernels();
  const auto expected = compute(*tiers.front());
  for (const Kernels* tier : tiers.subspan(1)) {
    EXPECT_TRUE(same_bits(expected, compute(*tier))) << "tier " << tier->name;
  }
  return expected;
}

struct QuantizedRows {
  std::vector<std::int8_t> q, fine;
  Floats scale;
  std::vector<std::int32_t> steps, sum;

  ActivationView view() const {
    return {.q = q.data(),
            .fine = fine.data(),
            .scale = scale.data(),
            .steps = steps.data(),
            .sum = sum.data()};
  }
  /// What the integers of element i stand for, in steps of the block's scale.
  std::int32_t level(std::size_t i) const { return steps[i / kActivationBlock] * q[i] + fine[i]; }
};

inline QuantizedRows quantize_rows(const Kernels& table, const Floats& x, std::size_t n_cols) {
  const std::size_t n_blocks = x.size() / kActivationBlock;
  QuantizedRows out = {std::vector<std::int8_t>(x.size()), std::vector<std::int8_t>(x.size()),
                       Floats(n_blocks), std::vector<std::int32_t>(n_blocks),
                       std::vector<std::int32_t>(n_blocks)};
  for (std::size_t t = 0; t < x.size() / n_cols; ++t) {
    const std::size_t block = t * n_cols / kActivationBlock;
    table.quantize_row(
        x.data() + t * n_cols, n_cols,
        {out.q.data() + t * n_cols, out.fine.data() + t * n_cols, out.scale.data() + block,
         out.steps.data() + block, out.sum.data() + block});
  }
  return out;
}

}  // namespace quire::testing
