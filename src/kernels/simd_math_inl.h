#pragma once
// exp and tanh on 16 lanes, and the element types the kernels read, on top of a simd_*.h that was
// included before. Own polynomials (minimax fits), so that every tier gives the same bits.

#include <cstddef>
#include <cstdint>

#include "kernels/kv_layout.h"

namespace quire {
namespace {

QUIRE_INLINE std::size_t smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }
QUIRE_INLINE std::size_t larger(std::size_t a, std::size_t b) { return a > b ? a : b; }

/// e^x, relative error below 2e-7. NaN stays NaN; below -87.3 it is 0, above 88.37 infinity.
QUIRE_INLINE F32x16 exp(F32x16 x) {
  const F32x16 lowest = splat(-87.3f);
  const F32x16 magic = splat(0x1.8p23f);  // adding it rounds to an integer
  const F32x16 clamped = min(splat(89), max(lowest, x));
  const F32x16 shifted = fma(clamped, splat(0x1.715476p+0f), magic);  // x / ln 2
  const F32x16 n = shifted - magic;
  // r = x - n ln 2 in [-ln 2 / 2, ln 2 / 2], with ln 2 in two parts
  F32x16 r = fma(n, splat(-0x1.63p-1f), clamped);
  r = fma(n, splat(0x1.bd0106p-13f), r);
  // e^r = 1 + r + r^2 p(r)
  F32x16 p = fma(splat(0x1.6a23ccp-10f), r, splat(0x1.123a2p-7f));
  p = fma(p, r, splat(0x1.5558f2p-5f));
  p = fma(p, r, splat(0x1.555492p-3f));
  p = fma(p, r, splat(0x1.fffffcp-2f));
  p = fma(p * r, r, r) + splat(1);
  return select(x < lowest, splat(0), p * power_of_two(shifted));
}

/// tanh(x), relative error below 3e-7.
QUIRE_INLINE F32x16 tanh(F32x16 x) {
  const F32x16 z = x * x;
  // |x| < 0.625: x + x^3 p(x^2)
  F32x16 p = fma(splat(-0x1.76a44cp-8f), z, splat(0x1.52552cp-6f));
  p = fma(p, z, splat(-0x1.b8440ap-5f));
  p = fma(p, z, splat(0x1.110766p-3f));
  p = fma(p, z, splat(-0x1.555534p-2f));
  const F32x16 near = fma(p * z, x, x);
  const F32x16 far = splat(1) - splat(2) / (exp(x + x) + splat(1));
  return select(z < splat(0.390625f), near, far);
}

/// cap * tanh(x / cap); NaN for infinity, which no finite x should look like.
QUIRE_INLINE F32x16 soft_capped(F32x16 x, F32x16 cap) { return cap * tanh(x / cap) + (x - x); }

struct SourceF32 {
  using Type = float;
  static constexpr bool kPaired = kv_type_is_paired(KvType::kF32);
  static constexpr std::int32_t kOverflowBits = 0x7f800000;  // f32 bits of what becomes infinite
  QUIRE_INLINE static F32x16 read(const float* p) { return load(p); }
  QUIRE_INLINE static F32x16 read_first(const float* p, std::size_t n) { return load_first(p, n); }
  QUIRE_INLINE static void write(float* p, F32x16 a) { store(p, a); }
};

struct SourceF16 {
  using Type = std::uint16_t;
  static constexpr bool kPaired = kv_type_is_paired(KvType::kF16);
  static constexpr std::int32_t kOverflowBits = 0x477ff000;  // 65,520
  QUIRE_INLINE static F32x16 read(const std::uint16_t* p) { return load_f16(p); }
  QUIRE_INLINE static F32x16 read_first(const std::uint16_t* p, std::size_t n) {
    std::uint16_t lanes[16] = {};
    __builtin_memcpy(lanes, p, n * sizeof(std::uint16_t));
    return load_f16(lanes);
  }
  QUIRE_INLINE static void write(std::uint16_t* p, F32x16 a) { store_f16(p, a); }
};

struct SourceBF16 {
  using Type = std::uint16_t;
  static constexpr bool kPaired = kv_type_is_paired(KvType::kBF16);
  static constexpr std::int32_t kOverflowBits = 0x7f7f8000;  // half a step above the largest bf16
  QUIRE_INLINE static F32x16 read(const std::uint16_t* p) { return load_bf16(p); }
  QUIRE_INLINE static F32x16 read_first(const std::uint16_t* p, std::size_t n) {
    std::uint16_t lanes[16] = {};
    __builtin_memcpy(lanes, p, n * sizeof(std::uint16_t));
    return load_bf16(lanes);
  }
  QUIRE_INLINE static void write(std::uint16_t* p, F32x16 a) { store_bf16(p, a); }
};

/// Calls f with the source of a storage type.
template <typename F>
QUIRE_INLINE void with_source(KvType type, F f) {
  switch (type) {
    case KvType::kF32:
      return f(SourceF32{});
    case KvType::kF16:
      return f(SourceF16{});
    case KvType::kBF16:
      return f(SourceBF16{});
  }
}

}  // namespace
}  // namespace quire
