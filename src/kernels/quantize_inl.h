#pragma once
// Activations to int8, one row at a time.

#include "kernels/kernels.h"
#include "kernels/simd_math_inl.h"

namespace quire {
namespace {

/// A block below this cannot be scaled to int8 (127 / amax would overflow) and becomes zero.
constexpr float kSmallestActivation = 1e-30f;

constexpr std::size_t kBlockLines = kActivationBlock / kOutlierColumns;

QUIRE_INLINE float float_of(std::int32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}

/// The three largest lines of a block, each as (bits of its largest magnitude) << 3 | (7 - line):
/// ordered like the magnitudes, of equal ones the first line first. Branches on where the largest
/// happen to be would be guessed wrong every time.
struct TopLines {
  std::uint64_t first, second, third;  // not set by default: rows keep many of them

  QUIRE_INLINE void add(std::uint64_t key) {
    const auto take = [&key](std::uint64_t& place) {
      const std::uint64_t larger = key > place ? key : place;
      key = key > place ? place : key;
      place = larger;
    };
    take(first);
    take(second);
    take(third);
  }
};

QUIRE_INLINE float magnitude_of(std::uint64_t key) {
  return float_of(static_cast<std::int32_t>(key >> 3));
}
QUIRE_INLINE unsigned line_of(std::uint64_t key) { return 1u << (7 - (key & 7)); }

QUIRE_INLINE TopLines top_lines(const float* x) {
  alignas(64) std::int32_t tops[kActivationBlock];  // of line l at 4 l
  store_int(tops, max_of_four(magnitude_bits(load(x))));
  store_int(tops + 16, max_of_four(magnitude_bits(load(x + 16))));
  TopLines top = {0, 0, 0};
#pragma GCC unroll 8
  for (std::uint64_t l = 0; l < kBlockLines; ++l) {
    top.add(static_cast<std::uint64_t>(tops[4 * l]) << 3 | (7 - l));
  }
  return top;
}

/// Which lines of a block are outliers, and the largest magnitude elsewhere.
struct Outliers {
  unsigned lines = 0;
  float rest = 0;
};

/// The choice that activations.h defines. A magnitude that is not finite saves nothing.
QUIRE_INLINE Outliers choose_outliers(const TopLines& top, double price) {
  static_assert(kMaxOutlierLines == 2);
  const auto square = [](std::uint64_t key) {
    const auto x = static_cast<double>(magnitude_of(key));
    return x * x;
  };
  const double one = square(top.first) - square(top.second) - price;
  const double two = square(top.first) - square(top.third) - 2 * price;
  if (!(one > 0 || two > 0)) return {0, magnitude_of(top.first)};
  if (two > one) return {line_of(top.first) | line_of(top.second), magnitude_of(top.third)};
  return {line_of(top.first), magnitude_of(top.second)};
}

QUIRE_INLINE I32x16 round_within(F32x16 x, float limit) {
  return round_to_int(min(max(x, splat(-limit)), splat(limit)));
}

void quantize_block(const float* x, float amax, const Outliers& outliers, std::size_t at,
                    const Int8Activations& out) {
  constexpr float kReach = 1.0f / static_cast<float>(kCoarseSteps);
  float rest = outliers.rest;
  if (rest < amax * kReach) rest = amax * kReach;  // the coarse term reaches no further
  const bool tiny = amax <= kSmallestActivation;   // false for NaN, which goes into the scale
  const F32x16 inverse = splat(tiny ? 0.0f : 127.0f / rest);
  const bool two_terms = outliers.lines != 0 && !tiny;
  const bool has_coarse = two_terms || out.lines[at] != 0;  // or had
  std::int32_t half_sums[2];
  for (std::size_t half = 0; half < 2; ++half) {
    const std::size_t i = 16 * half;
    const F32x16 scaled = load(x + i) * inverse;
    I32x16 level = round_within(scaled, two_terms ? 127.0f * kCoarseSteps : 127.0f);
    half_sums[half] = reduce_add(level);
    I32x16 coarse = splat_int(0);
    if (two_terms) {
      const unsigned lines = outliers.lines >> i / kOutlierColumns & 0xfu;
      coarse =
          round_to_int(to_float(level) * select(lanes_of_fours(lines), splat(kReach), splat(0)));
      level = level + coarse * splat_int(-kCoarseSteps);
    }
    store_s8(out.q + at * kActivationBlock + i, level);
    if (has_coarse) store_s8(out.coarse + at * kActivationBlock + i, coarse);
  }
  out.lines[at] = two_terms ? static_cast<std::uint8_t>(outliers.lines) : std::uint8_t{0};
  out.scale[at] = tiny ? 0.0f : rest / 127.0f;
  out.half_sum[at] = half_sums[0];
  out.sum[at] = half_sums[0] + half_sums[1];
  out.scaled_sum[at] = out.scale[at] * static_cast<float>(out.sum[at]);
}

void quantize_row(const float* x, std::size_t token, const Int8Activations& out) {
  constexpr std::size_t kKept = 256;  // blocks whose lines are looked at only once
  TopLines kept[kKept];
  double squares = 0;
  for (std::size_t b = 0; b < out.n_blocks; ++b) {
    const TopLines top = top_lines(x + b * kActivationBlock);
    if (b < kKept) kept[b] = top;
    const auto amax = static_cast<double>(magnitude_of(top.first));
    squares += amax * amax;
  }
  const double price = squares / static_cast<double>(out.n_blocks) * kOutlierGain;
  for (std::size_t b = 0; b < out.n_blocks; ++b) {
    const float* block = x + b * kActivationBlock;
    const TopLines top = b < kKept ? kept[b] : top_lines(block);
    quantize_block(block, magnitude_of(top.first), choose_outliers(top, price), out.block(token, b),
                   out);
  }
}

}  // namespace
}  // namespace quire
