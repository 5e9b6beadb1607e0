#pragma once
// Vector functions of a layer that are not matrix products; see kernels.h for each.

#include "kernels/kernels.h"
#include "kernels/simd_math_inl.h"

namespace quire {
namespace {

/// out[i] = f(a[i], b[i]) for n elements, 16 at a time.
template <typename F>
QUIRE_INLINE void zip(const float* a, const float* b, float* out, std::size_t n, F f) {
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) store(out + i, f(load(a + i), load(b + i)));
  if (i < n) {
    store_first(out + i, f(load_first(a + i, n - i), load_first(b + i, n - i)), n - i);
  }
}

/// A block below this cannot be scaled to int8 (127 / amax would overflow) and becomes zero.
constexpr float kSmallestActivation = 1e-30f;

QUIRE_INLINE I32x16 clamp_to_s8(F32x16 x) {
  return round_to_int(min(max(x, splat(-127)), splat(127)));
}

/// One block of a row: q, and where it is loud the rest in steps of 1 / kFineSteps.
void quantize_block(const float* x, float amax, bool loud, std::size_t block,
                    const QuantizedRow& out) {
  const bool tiny = amax <= kSmallestActivation;  // false for NaN, which goes into the scale
  const F32x16 inverse = splat(tiny ? 0.0f : 127.0f / amax);
  I32x16 sum = splat_int(0);
  for (std::size_t i = block * kActivationBlock; i < (block + 1) * kActivationBlock; i += 16) {
    const F32x16 scaled = load(x + i) * inverse;
    const I32x16 q = clamp_to_s8(scaled);
    I32x16 fine = splat_int(0);
    if (loud) {
      fine = clamp_to_s8((scaled - to_float(q)) * splat(static_cast<float>(kFineSteps)));
      sum = sum + q * splat_int(kFineSteps) + fine;
    } else {
      sum = sum + q;
    }
    store_s8(out.q + i, q);
    store_s8(out.fine + i, fine);
  }
  const std::int32_t steps = loud ? kFineSteps : 1;
  out.scale[block] = tiny ? 0.0f : amax / 127.0f / static_cast<float>(steps);
  out.steps[block] = steps;
  out.sum[block] = reduce_add(sum);
}

void quantize_row(const float* x, std::size_t n_cols, const QuantizedRow& out) {
  const std::size_t n_blocks = n_cols / kActivationBlock;
  double squares = 0;
  for (std::size_t b = 0; b < n_blocks; ++b) {
    const F32x16 x0 = load(x + b * kActivationBlock);
    const F32x16 x1 = load(x + b * kActivationBlock + 16);
    const std::int32_t top = reduce_max(max(magnitude_bits(x0), magnitude_bits(x1)));
    float amax;
    __builtin_memcpy(&amax, &top, sizeof(amax));
    out.scale[b] = amax;  // until its block is quantized
    squares += static_cast<double>(amax) * static_cast<double>(amax);
  }
  const double limit = squares / static_cast<double>(n_blocks) * kLoudness;
  for (std::size_t b = 0; b < n_blocks; ++b) {
    const float amax = out.scale[b];
    const bool loud = static_cast<double>(amax) * static_cast<double>(amax) > limit;
    quantize_block(x, amax, loud && amax > kSmallestActivation, b, out);
  }
}

void rms_norm(const float* x, const float* weight, float eps, std::size_t n, float* y) {
  F32x16 squares = splat(0);
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const F32x16 v = load(x + i);
    squares = fma(v, v, squares);
  }
  if (i < n) {
    const F32x16 v = load_first(x + i, n - i);
    squares = fma(v, v, squares);
  }
  const float mean = reduce_add(squares) / static_cast<float>(n);
  // 1 / infinity would make a row of zeros of values that only their squares are too large for.
  const float overflow = mean - mean;  // 0, or NaN for what is not finite
  const F32x16 factor = splat(1.0f / square_root(mean + eps) + overflow);
  if (weight == nullptr) {
    zip(x, x, y, n, [&](F32x16 v, F32x16) { return v * factor; });
  } else {
    zip(x, weight, y, n, [&](F32x16 v, F32x16 w) { return (v * factor) * w; });
  }
}

/// Plain multiplies and adds, so that vectorizing it cannot change a bit.
void rope(float* x, std::size_t n_heads, std::size_t head_dim, std::size_t rope_dim,
          RopeStyle style, const float* cos, const float* sin) {
  const std::size_t half = rope_dim / 2;
  const bool halves = style == RopeStyle::kHalves;
  for (std::size_t h = 0; h < n_heads; ++h) {
    float* head = x + h * head_dim;
    for (std::size_t i = 0; i < half; ++i) {
      float& first = halves ? head[i] : head[2 * i];
      float& second = halves ? head[i + half] : head[2 * i + 1];
      const float a = first;
      const float b = second;
      first = a * cos[i] - b * sin[i];
      second = b * cos[i] + a * sin[i];
    }
  }
}

void add(const float* x, float* y, std::size_t n) {
  zip(x, y, y, n, [](F32x16 a, F32x16 b) { return b + a; });
}

void scale(float factor, float* y, std::size_t n) {
  const F32x16 f = splat(factor);
  zip(y, y, y, n, [&](F32x16 a, F32x16) { return a * f; });
}

/// silu(g) * u with silu(g) = g / (1 + e^-g)
void silu_mul(const float* gate, const float* up, float* y, std::size_t n) {
  zip(gate, up, y, n, [](F32x16 g, F32x16 u) { return g / (splat(1) + exp(splat(0) - g)) * u; });
}

/// gelu(g) * u; 0.5 g (1 + tanh(t)) = g / (1 + e^-2t) with t = sqrt(2/pi) (g + 0.044715 g^3), which
/// loses nothing to cancellation.
void gelu_tanh_mul(const float* gate, const float* up, float* y, std::size_t n) {
  constexpr float kLinear = -1.5957691216057308f;  // -2 sqrt(2/pi)
  constexpr float kCubic = -0.07135481282553503f;  // times 0.044715
  zip(gate, up, y, n, [](F32x16 g, F32x16 u) {
    const F32x16 minus_2t = g * fma(g * g, splat(kCubic), splat(kLinear));
    return g / (splat(1) + exp(minus_2t)) * u;
  });
}

void softcap(float cap, float* y, std::size_t n) {
  const F32x16 c = splat(cap);
  zip(y, y, y, n, [&](F32x16 a, F32x16) { return soft_capped(a, c); });
}

}  // namespace
}  // namespace quire
