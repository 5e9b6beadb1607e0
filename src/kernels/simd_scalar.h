#pragma once
// The 16-lane vector of the scalar tier: plain arrays, any CPU. It defines what the operations
// mean; simd_avx2.h and simd_avx512.h give the same bits. Include only from kernels_scalar.cc.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/float16.h"

#define QUIRE_INLINE [[gnu::always_inline]] inline

namespace quire {
namespace {

constexpr int kMaxQuantTile = 1;  // tokens whose sums are kept in registers
constexpr int kMaxFloatTile = 1;
constexpr int kMaxAttentionRows = 1;
constexpr int kMixChunks = 1;         // 16-lane pieces of the output per pass over V
constexpr bool kDotIsBiased8 = true;  // dot2<8> reads weights as stored: 0..255

struct F32x16 {
  float v[16];
};
struct I32x16 {
  std::int32_t v[16];
};
struct Line {  // 16 rows x 4 columns of bytes
  std::uint8_t v[64];
};
struct Mask {
  bool v[16];
};

template <typename F>
QUIRE_INLINE F32x16 map(F f) {
  F32x16 out;
  for (int i = 0; i < 16; ++i) out.v[i] = f(i);
  return out;
}
template <typename F>
QUIRE_INLINE I32x16 map_int(F f) {
  I32x16 out;
  for (int i = 0; i < 16; ++i) out.v[i] = f(i);
  return out;
}

QUIRE_INLINE F32x16 splat(float x) {
  return map([&](int) { return x; });
}
QUIRE_INLINE F32x16 load(const float* p) {
  return map([&](int i) { return p[i]; });
}
QUIRE_INLINE F32x16 load_first(const float* p, std::size_t n) {
  return map([&](int i) { return static_cast<std::size_t>(i) < n ? p[i] : 0.0f; });
}
QUIRE_INLINE void store(float* p, F32x16 a) { std::memcpy(p, a.v, sizeof(a.v)); }
QUIRE_INLINE void store_first(float* p, F32x16 a, std::size_t n) {
  std::memcpy(p, a.v, n * sizeof(float));
}
QUIRE_INLINE F32x16 load_f16(const std::uint16_t* p) {
  return map([&](int i) { return f16_to_f32(p[i]); });
}
QUIRE_INLINE F32x16 load_bf16(const std::uint16_t* p) {
  return map([&](int i) { return bf16_to_f32(p[i]); });
}
QUIRE_INLINE void store_f16(std::uint16_t* p, F32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = f32_to_f16(a.v[i]);
}
QUIRE_INLINE void store_bf16(std::uint16_t* p, F32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = f32_to_bf16(a.v[i]);
}
QUIRE_INLINE F32x16 load_s8(const std::int8_t* p) {
  return map([&](int i) { return static_cast<float>(p[i]); });
}

QUIRE_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return map([&](int i) { return a.v[i] + b.v[i]; });
}
QUIRE_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return map([&](int i) { return a.v[i] - b.v[i]; });
}
QUIRE_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return map([&](int i) { return a.v[i] * b.v[i]; });
}
QUIRE_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return map([&](int i) { return a.v[i] / b.v[i]; });
}
/// a * b + c, rounded once.
QUIRE_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return map([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}
/// Like x86: the second operand when either is NaN.
QUIRE_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return map([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
QUIRE_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return map([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
QUIRE_INLINE float square_root(float x) { return std::sqrt(x); }

QUIRE_INLINE Mask operator<(F32x16 a, F32x16 b) {
  Mask out;
  for (int i = 0; i < 16; ++i) out.v[i] = a.v[i] < b.v[i];
  return out;
}
/// Lanes begin <= i < end.
QUIRE_INLINE Mask lane_range(int begin, int end) {
  Mask out;
  for (int i = 0; i < 16; ++i) out.v[i] = begin <= i && i < end;
  return out;
}
/// Lanes 4 i … 4 i + 3 for every bit i of `fours`.
QUIRE_INLINE Mask lanes_of_fours(unsigned fours) {
  Mask out;
  for (int i = 0; i < 16; ++i) out.v[i] = (fours >> i / 4 & 1u) != 0;
  return out;
}
QUIRE_INLINE F32x16 select(Mask mask, F32x16 yes, F32x16 no) {
  return map([&](int i) { return mask.v[i] ? yes.v[i] : no.v[i]; });
}

/// Horizontal reductions: lane i with i + 8, then + 4, + 2, + 1. Every tier keeps this order.
template <typename T, typename F>
QUIRE_INLINE T fold(const T (&lanes)[16], F f) {
  T v[16];
  std::memcpy(v, lanes, sizeof(v));
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) v[i] = f(v[i], v[i + width]);
  }
  return v[0];
}
QUIRE_INLINE float reduce_add(F32x16 a) {
  return fold(a.v, [](float x, float y) { return x + y; });
}
QUIRE_INLINE float reduce_max(F32x16 a) {
  return fold(a.v, [](float x, float y) { return x > y ? x : y; });
}
QUIRE_INLINE std::int32_t reduce_add(I32x16 a) {
  return fold(a.v, [](std::int32_t x, std::int32_t y) { return x + y; });
}
QUIRE_INLINE std::int32_t reduce_max(I32x16 a) {
  return fold(a.v, [](std::int32_t x, std::int32_t y) { return x > y ? x : y; });
}

QUIRE_INLINE I32x16 splat_int(std::int32_t x) {
  return map_int([&](int) { return x; });
}
QUIRE_INLINE I32x16 operator+(I32x16 a, I32x16 b) {
  return map_int([&](int i) { return a.v[i] + b.v[i]; });
}
QUIRE_INLINE I32x16 operator*(I32x16 a, I32x16 b) {
  return map_int([&](int i) { return a.v[i] * b.v[i]; });
}
QUIRE_INLINE I32x16 max(I32x16 a, I32x16 b) {
  return map_int([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
/// The bits of |x|, ordered like the values, with every NaN above infinity.
QUIRE_INLINE I32x16 magnitude_bits(F32x16 a) {
  return map_int([&](int i) { return std::bit_cast<std::int32_t>(a.v[i]) & 0x7fffffff; });
}
/// Every lane becomes the largest of lanes 4 i … 4 i + 3 it is among.
QUIRE_INLINE I32x16 max_of_four(I32x16 a) {
  return map_int([&](int i) {
    std::int32_t top = a.v[i / 4 * 4];
    for (int j = 1; j < 4; ++j) top = top > a.v[i / 4 * 4 + j] ? top : a.v[i / 4 * 4 + j];
    return top;
  });
}
QUIRE_INLINE void store_int(std::int32_t* p, I32x16 a) { std::memcpy(p, a.v, sizeof(a.v)); }
QUIRE_INLINE F32x16 to_float(I32x16 a) {
  return map([&](int i) { return static_cast<float>(a.v[i]); });
}
/// Round to nearest even; |x| < 2^22.
QUIRE_INLINE I32x16 round_to_int(F32x16 a) {
  return map_int([&](int i) {
    return std::bit_cast<std::int32_t>(a.v[i] + 0x1.8p23f) - std::bit_cast<std::int32_t>(0x1.8p23f);
  });
}
/// For a = 1.5 * 2^23 + n: the float 2^n.
QUIRE_INLINE F32x16 power_of_two(F32x16 a) {
  return map([&](int i) {
    return std::bit_cast<float>((std::bit_cast<std::uint32_t>(a.v[i]) + 127u) << 23);
  });
}
/// Keeps the low byte.
QUIRE_INLINE void store_s8(std::int8_t* p, I32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(a.v[i]);
}

QUIRE_INLINE void store_line(std::byte* p, Line a) { std::memcpy(p, a.v, sizeof(a.v)); }
QUIRE_INLINE Line load_line(const std::byte* p) {
  Line out;
  std::memcpy(out.v, p, sizeof(out.v));
  return out;
}
/// Every byte b becomes (b >> kShift) & kMask, or b << -kShift; kMask hides what crosses bytes.
template <int kShift, int kMask>
QUIRE_INLINE Line bits_at(Line a) {
  Line out;
  for (int i = 0; i < 64; ++i) {
    const int byte = kShift >= 0 ? a.v[i] >> (kShift & 7) : a.v[i] << (-kShift & 7);
    out.v[i] = static_cast<std::uint8_t>(byte & kMask);
  }
  return out;
}
QUIRE_INLINE Line operator|(Line a, Line b) {
  Line out;
  for (int i = 0; i < 64; ++i) out.v[i] = static_cast<std::uint8_t>(a.v[i] | b.v[i]);
  return out;
}

/// acc[row] += sum over 4 columns of w[row][k] * x[k]; exact. Weights have kBits bits; 8-bit ones
/// count from 128 where !kDotIsBiased8.
template <int kBits>
QUIRE_INLINE I32x16 dot(I32x16 acc, Line w, const std::int8_t* x) {
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 4; ++k) acc.v[i] += w.v[4 * i + k] * x[k];
  }
  return acc;
}
/// The same for two lines.
template <int kBits>
QUIRE_INLINE I32x16 dot2(I32x16 acc, Line w0, const std::int8_t* x0, Line w1,
                         const std::int8_t* x1) {
  return dot<kBits>(dot<kBits>(acc, w0, x0), w1, x1);
}

/// 16 pairs of bf16, the first of a pair in the low half.
struct Pairs {
  std::uint16_t v[32];
};
QUIRE_INLINE Pairs load_pairs_first(const std::uint16_t* p, std::size_t n) {
  Pairs out = {};
  std::memcpy(out.v, p, n * 2 * sizeof(std::uint16_t));
  return out;
}
QUIRE_INLINE Pairs load_pairs(const std::uint16_t* p) { return load_pairs_first(p, 16); }
QUIRE_INLINE Pairs splat_pair(const std::uint16_t* p) {
  Pairs out;
  for (int i = 0; i < 32; ++i) out.v[i] = p[i % 2];
  return out;
}
/// Of every pair, the bits of `mask`: 0xffff is the first, 0xffff0000 the second.
QUIRE_INLINE Pairs keep_of_pairs(Pairs a, std::uint32_t mask) {
  for (int i = 0; i < 32; ++i) a.v[i] &= static_cast<std::uint16_t>(mask >> (i % 2 * 16));
  return a;
}
/// Subnormal numbers become zero of their sign.
QUIRE_INLINE F32x16 flushed(F32x16 a) {
  return map(
      [&](int i) { return std::fabs(a.v[i]) < 0x1p-126f ? std::copysign(0.0f, a.v[i]) : a.v[i]; });
}
/// What the instruction vdpbf16ps does: acc + second * second, rounded, then + first * first,
/// rounded; subnormal results are flushed. Subnormal inputs are not defined here.
QUIRE_INLINE F32x16 dot_pairs(F32x16 acc, Pairs a, Pairs b) {
  const auto add = [&](int j) {
    acc = flushed(map([&](int i) {
      return std::fma(bf16_to_f32(a.v[2 * i + j]), bf16_to_f32(b.v[2 * i + j]), acc.v[i]);
    }));
  };
  add(1);
  add(0);
  return acc;
}
/// To the nearest even bf16, subnormal numbers to zero; returns what was stored.
QUIRE_INLINE F32x16 store_rounded_bf16(std::uint16_t* p, F32x16 a) {
  store_bf16(p, flushed(a));
  return load_bf16(p);
}

}  // namespace
}  // namespace quire
