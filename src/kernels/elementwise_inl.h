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
