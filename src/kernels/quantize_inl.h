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

/// Which lines of a block are outliers, and the largest magnitude elsewhere.
struct Outliers {
  std::uint8_t lines = 0;
  float rest = 0;
};

/// The choice of outlier lines that activations.h defines. A magnitude that is not finite saves
/// nothing.
Outliers find_outliers(const float* x, float amax, double price) {
  const double amax2 = static_cast<double>(amax) * static_cast<double>(amax);
  Outliers best = {0, amax};
  if (!(amax2 > price)) return best;
  alignas(64) std::int32_t tops[kActivationBlock];  // of line l at 4 l
  store_int(tops, max_of_four(magnitude_bits(load(x))));
  store_int(tops + 16, max_of_four(magnitude_bits(load(x + 16))));
  double best_gain = 0;
  unsigned taken = 0;
  for (std::size_t n = 0; n <= kMaxOutlierLines; ++n) {
    std::size_t top = kBlockLines;
    for (std::size_t l = 0; l < kBlockLines; ++l) {
      if ((taken >> l & 1) != 0) continue;
      if (top == kBlockLines || tops[4 * l] > tops[4 * top]) top = l;
    }
    const float rest = float_of(tops[4 * top]);
    const double gain = amax2 - static_cast<double>(rest) * static_cast<double>(rest) -
                        static_cast<double>(n) * price;
    if (gain > best_gain) {
      best_gain = gain;
      best = {static_cast<std::uint8_t>(taken), rest};
    }
    taken |= 1u << top;
  }
  return best;
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
    store_s8(out.coarse + at * kActivationBlock + i, coarse);
  }
  out.lines[at] = two_terms ? outliers.lines : std::uint8_t{0};
  out.scale[at] = tiny ? 0.0f : rest / 127.0f;
  out.half_sum[at] = half_sums[0];
  out.sum[at] = half_sums[0] + half_sums[1];
  out.scaled_sum[at] = out.scale[at] * static_cast<float>(out.sum[at]);
}

void quantize_row(const float* x, std::size_t token, const Int8Activations& out) {
  double squares = 0;
  for (std::size_t b = 0; b < out.n_blocks; ++b) {
    const F32x16 x0 = load(x + b * kActivationBlock);
    const F32x16 x1 = load(x + b * kActivationBlock + 16);
    const float amax = float_of(reduce_max(max(magnitude_bits(x0), magnitude_bits(x1))));
    out.scale[out.block(token, b)] = amax;  // until its block is quantized
    squares += static_cast<double>(amax) * static_cast<double>(amax);
  }
  const double price = squares / static_cast<double>(out.n_blocks) * kOutlierGain;
  for (std::size_t b = 0; b < out.n_blocks; ++b) {
    const std::size_t at = out.block(token, b);
    const float amax = out.scale[at];
    const float* block = x + b * kActivationBlock;
    quantize_block(block, amax, find_outliers(block, amax, price), at, out);
  }
}

}  // namespace
}  // namespace quire
