#pragma once
// Shared by the kernel tests: random data with fixed seeds, and comparisons bit for bit.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "base/float16.h"
#include "kernels/kernels.h"

#if defined(__x86_64__)
namespace quire {
extern const Kernels kAvx2VnniEvexKernels;  // kernels_avx2vnni_evex_test.cc
}
#endif

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

/// Every tier this CPU runs, scalar first, and what the test program has besides.
inline std::vector<const Kernels*> tested_kernels() {
  const auto tiers = available_kernels();
  std::vector<const Kernels*> tables(tiers.begin(), tiers.end());
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni")) {
    tables.push_back(&kAvx2VnniEvexKernels);
  }
#endif
  return tables;
}

/// Runs `compute(table)` on all of them and asserts the bits of its result; returns the scalar one.
template <typename F>
auto on_every_tier(F compute) {
  const auto tables = tested_kernels();
  const auto expected = compute(*tables.front());
  for (const Kernels* table : std::span(tables).subspan(1)) {
    EXPECT_TRUE(same_bits(expected, compute(*table))) << "tier " << table->name;
  }
  return expected;
}

/// Rows in int8, and what the integers stand for.
struct QuantizedRows {
  Int8Buffer buffer;
  std::size_t n_tokens = 0;

  const Int8Activations& view() const { return buffer.view(); }
  float scale(std::size_t t, std::size_t b) const { return view().scale[view().block(t, b)]; }
  std::uint8_t lines(std::size_t t, std::size_t b) const {
    return view().lines[view().block(t, b)];
  }
  std::int32_t coarse(std::size_t t, std::size_t c) const {
    return view().coarse[view().values(t, c / kActivationBlock) + c % kActivationBlock];
  }
  /// Column c of token t in steps of the block's scale.
  std::int32_t level(std::size_t t, std::size_t c) const {
    return kCoarseSteps * coarse(t, c) +
           view().q[view().values(t, c / kActivationBlock) + c % kActivationBlock];
  }
  /// Every integer there is, and every float, for comparisons.
  std::vector<std::int32_t> integers() const {
    std::vector<std::int32_t> out;
    for (std::size_t t = 0; t < n_tokens; ++t) {
      for (std::size_t b = 0; b < view().n_blocks; ++b) {
        const std::size_t at = view().block(t, b);
        out.insert(out.end(), {view().lines[at], view().sum[at], view().half_sum[at]});
        for (std::size_t i = at * kActivationBlock; i < (at + 1) * kActivationBlock; ++i) {
          out.insert(out.end(), {view().q[i], view().coarse[i]});
        }
      }
    }
    return out;
  }
  Floats floats() const {
    Floats out;
    for (std::size_t t = 0; t < n_tokens; ++t) {
      for (std::size_t b = 0; b < view().n_blocks; ++b) {
        out.push_back(scale(t, b));
        out.push_back(view().scaled_sum[view().block(t, b)]);
      }
    }
    return out;
  }
};

/// Into memory that may have been used before.
inline void quantize_rows(const Kernels& table, const Floats& x, std::size_t n_cols,
                          QuantizedRows& out) {
  out.n_tokens = x.size() / n_cols;
  out.buffer.resize(out.n_tokens, n_cols);
  for (std::size_t t = 0; t < out.n_tokens; ++t) {
    table.quantize_row(x.data() + t * n_cols, t, out.view());
  }
}

inline QuantizedRows quantize_rows(const Kernels& table, const Floats& x, std::size_t n_cols) {
  QuantizedRows out;
  quantize_rows(table, x, n_cols, out);
  return out;
}

}  // namespace quire::testing
