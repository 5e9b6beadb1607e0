#pragma once
// The 16-lane vector of the NEON tier (AArch64 with dot products): four quarters of 4 lanes; see
// simd_scalar.h for the meaning of each operation. Include only from kernels_neon.cc.
#if defined(__aarch64__)

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#define QUIRE_INLINE [[gnu::always_inline]] inline

namespace quire {
namespace {

constexpr int kMaxQuantTile = 4;
constexpr int kMaxFloatTile = 1;
constexpr int kMaxAttentionRows = 2;
constexpr int kMixChunks = 2;
constexpr bool kDotIsBiased8 = false;  // SDOT is signed: dot<8> takes 128 off the weights itself

struct F32x16 {
  float32x4_t a, b, c, d;
};
struct I32x16 {
  int32x4_t a, b, c, d;
};
struct Line {
  uint8x16_t a, b, c, d;
};
struct Mask {
  uint32x4_t a, b, c, d;
};
struct Pairs {
  uint32x4_t a, b, c, d;
};

/// f of the quarters of one, two or three vectors.
template <typename Out, typename F, typename X>
QUIRE_INLINE Out each(F f, X x) {
  return {f(x.a), f(x.b), f(x.c), f(x.d)};
}
template <typename Out, typename F, typename X, typename Y>
QUIRE_INLINE Out each(F f, X x, Y y) {
  return {f(x.a, y.a), f(x.b, y.b), f(x.c, y.c), f(x.d, y.d)};
}
template <typename Out, typename F, typename X, typename Y, typename Z>
QUIRE_INLINE Out each(F f, X x, Y y, Z z) {
  return {f(x.a, y.a, z.a), f(x.b, y.b, z.b), f(x.c, y.c, z.c), f(x.d, y.d, z.d)};
}

QUIRE_INLINE F32x16 splat(float x) {
  const float32x4_t v = vdupq_n_f32(x);
  return {v, v, v, v};
}
QUIRE_INLINE F32x16 load(const float* p) {
  return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
QUIRE_INLINE F32x16 load_first(const float* p, std::size_t n) {
  float lanes[16] = {};
  __builtin_memcpy(lanes, p, n * sizeof(float));
  return load(lanes);
}
QUIRE_INLINE void store(float* p, F32x16 x) {
  vst1q_f32(p, x.a);
  vst1q_f32(p + 4, x.b);
  vst1q_f32(p + 8, x.c);
  vst1q_f32(p + 12, x.d);
}
QUIRE_INLINE void store_first(float* p, F32x16 x, std::size_t n) {
  float lanes[16];
  store(lanes, x);
  __builtin_memcpy(p, lanes, n * sizeof(float));
}
QUIRE_INLINE float32x4_t widen_f16(const std::uint16_t* p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
QUIRE_INLINE F32x16 load_f16(const std::uint16_t* p) {
  return {widen_f16(p), widen_f16(p + 4), widen_f16(p + 8), widen_f16(p + 12)};
}
QUIRE_INLINE float32x4_t widen_bf16(const std::uint16_t* p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
QUIRE_INLINE F32x16 load_bf16(const std::uint16_t* p) {
  return {widen_bf16(p), widen_bf16(p + 4), widen_bf16(p + 8), widen_bf16(p + 12)};
}
QUIRE_INLINE void store_f16(std::uint16_t* p, float32x4_t x) {
  vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}
QUIRE_INLINE void store_f16(std::uint16_t* p, F32x16 x) {
  store_f16(p, x.a);
  store_f16(p + 4, x.b);
  store_f16(p + 8, x.c);
  store_f16(p + 12, x.d);
}
QUIRE_INLINE void store_bf16(std::uint16_t* p, float32x4_t x) {
  const uint32x4_t bits = vreinterpretq_u32_f32(x);
  const uint32x4_t top = vshrq_n_u32(bits, 16);
  const uint32x4_t odd = vandq_u32(top, vdupq_n_u32(1));
  const uint32x4_t rounded = vshrq_n_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd), 16);
  const uint32x4_t quiet = vorrq_u32(top, vdupq_n_u32(0x40));
  vst1_u16(p, vmovn_u32(vbslq_u32(vceqq_f32(x, x), rounded, quiet)));
}
QUIRE_INLINE void store_bf16(std::uint16_t* p, F32x16 x) {
  store_bf16(p, x.a);
  store_bf16(p + 4, x.b);
  store_bf16(p + 8, x.c);
  store_bf16(p + 12, x.d);
}
QUIRE_INLINE F32x16 load_s8(const std::int8_t* p) {
  const int8x16_t bytes = vld1q_s8(p);
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes));
  const int16x8_t high = vmovl_high_s8(bytes);
  return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_high_s16(low)),
          vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_high_s16(high))};
}

QUIRE_INLINE F32x16 operator+(F32x16 x, F32x16 y) {
  return each<F32x16>([](auto p, auto q) { return vaddq_f32(p, q); }, x, y);
}
QUIRE_INLINE F32x16 operator-(F32x16 x, F32x16 y) {
  return each<F32x16>([](auto p, auto q) { return vsubq_f32(p, q); }, x, y);
}
QUIRE_INLINE F32x16 operator*(F32x16 x, F32x16 y) {
  return each<F32x16>([](auto p, auto q) { return vmulq_f32(p, q); }, x, y);
}
QUIRE_INLINE F32x16 operator/(F32x16 x, F32x16 y) {
  return each<F32x16>([](auto p, auto q) { return vdivq_f32(p, q); }, x, y);
}
QUIRE_INLINE F32x16 fma(F32x16 x, F32x16 y, F32x16 z) {
  return each<F32x16>([](auto p, auto q, auto r) { return vfmaq_f32(r, p, q); }, x, y, z);
}
// FMAX and FMIN pass NaN on and tell -0 from 0, which the other tiers do not.
QUIRE_INLINE float32x4_t max(float32x4_t x, float32x4_t y) {
  return vbslq_f32(vcgtq_f32(x, y), x, y);
}
QUIRE_INLINE F32x16 max(F32x16 x, F32x16 y) {
  return each<F32x16>([](auto p, auto q) { return max(p, q); }, x, y);
}
QUIRE_INLINE F32x16 min(F32x16 x, F32x16 y) {
  return each<F32x16>([](auto p, auto q) { return vbslq_f32(vcltq_f32(p, q), p, q); }, x, y);
}
QUIRE_INLINE float square_root(float x) { return vget_lane_f32(vsqrt_f32(vdup_n_f32(x)), 0); }

QUIRE_INLINE Mask operator<(F32x16 x, F32x16 y) {
  return each<Mask>([](auto p, auto q) { return vcltq_f32(p, q); }, x, y);
}
QUIRE_INLINE Mask lane_range(int begin, int end) {
  constexpr std::int32_t kLanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const int32x4_t from = vdupq_n_s32(begin);
  const int32x4_t to = vdupq_n_s32(end);
  const auto between = [&](int first) {
    const int32x4_t lanes = vld1q_s32(kLanes + first);
    return vandq_u32(vcgeq_s32(lanes, from), vcltq_s32(lanes, to));
  };
  return {between(0), between(4), between(8), between(12)};
}
QUIRE_INLINE Mask lanes_of_fours(unsigned fours) {
  const uint32x4_t all = vdupq_n_u32(fours);
  const auto has = [&](std::uint32_t bit) { return vtstq_u32(all, vdupq_n_u32(bit)); };
  return {has(1), has(2), has(4), has(8)};
}
QUIRE_INLINE F32x16 select(Mask mask, F32x16 yes, F32x16 no) {
  return each<F32x16>([](auto m, auto p, auto q) { return vbslq_f32(m, p, q); }, mask, yes, no);
}

QUIRE_INLINE float reduce_add(F32x16 x) {
  const float32x4_t v4 = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
  const float32x2_t v2 = vadd_f32(vget_low_f32(v4), vget_high_f32(v4));
  return vget_lane_f32(v2, 0) + vget_lane_f32(v2, 1);
}
QUIRE_INLINE float reduce_max(F32x16 x) {
  const float32x4_t v4 = max(max(x.a, x.c), max(x.b, x.d));
  const float32x4_t v2 = max(v4, vextq_f32(v4, v4, 2));
  return vgetq_lane_f32(max(v2, vextq_f32(v2, v2, 1)), 0);
}
QUIRE_INLINE std::int32_t reduce_add(I32x16 x) {
  return vaddvq_s32(vaddq_s32(vaddq_s32(x.a, x.c), vaddq_s32(x.b, x.d)));
}
QUIRE_INLINE std::int32_t reduce_max(I32x16 x) {
  return vmaxvq_s32(vmaxq_s32(vmaxq_s32(x.a, x.c), vmaxq_s32(x.b, x.d)));
}

QUIRE_INLINE I32x16 splat_int(std::int32_t x) {
  const int32x4_t v = vdupq_n_s32(x);
  return {v, v, v, v};
}
QUIRE_INLINE I32x16 operator+(I32x16 x, I32x16 y) {
  return each<I32x16>([](auto p, auto q) { return vaddq_s32(p, q); }, x, y);
}
QUIRE_INLINE I32x16 operator*(I32x16 x, I32x16 y) {
  return each<I32x16>([](auto p, auto q) { return vmulq_s32(p, q); }, x, y);
}
QUIRE_INLINE I32x16 max(I32x16 x, I32x16 y) {
  return each<I32x16>([](auto p, auto q) { return vmaxq_s32(p, q); }, x, y);
}
QUIRE_INLINE I32x16 magnitude_bits(F32x16 x) {
  return each<I32x16>(
      [](auto p) { return vandq_s32(vreinterpretq_s32_f32(p), vdupq_n_s32(0x7fffffff)); }, x);
}
QUIRE_INLINE I32x16 max_of_four(I32x16 x) {
  return each<I32x16>([](auto p) { return vdupq_n_s32(vmaxvq_s32(p)); }, x);
}
QUIRE_INLINE void store_int(std::int32_t* p, I32x16 x) {
  vst1q_s32(p, x.a);
  vst1q_s32(p + 4, x.b);
  vst1q_s32(p + 8, x.c);
  vst1q_s32(p + 12, x.d);
}
QUIRE_INLINE F32x16 to_float(I32x16 x) {
  return each<F32x16>([](auto p) { return vcvtq_f32_s32(p); }, x);
}
QUIRE_INLINE I32x16 round_to_int(F32x16 x) {
  return each<I32x16>([](auto p) { return vcvtnq_s32_f32(p); }, x);
}
QUIRE_INLINE F32x16 power_of_two(F32x16 x) {
  return each<F32x16>(
      [](auto p) {
        const uint32x4_t biased = vaddq_u32(vreinterpretq_u32_f32(p), vdupq_n_u32(127));
        return vreinterpretq_f32_u32(vshlq_n_u32(biased, 23));
      },
      x);
}
QUIRE_INLINE void store_s8(std::int8_t* p, I32x16 x) {
  const int16x8_t low = vcombine_s16(vmovn_s32(x.a), vmovn_s32(x.b));
  const int16x8_t high = vcombine_s16(vmovn_s32(x.c), vmovn_s32(x.d));
  vst1q_s8(p, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}

QUIRE_INLINE void store_line(std::byte* p, Line x) {
  auto* bytes = reinterpret_cast<std::uint8_t*>(p);
  vst1q_u8(bytes, x.a);
  vst1q_u8(bytes + 16, x.b);
  vst1q_u8(bytes + 32, x.c);
  vst1q_u8(bytes + 48, x.d);
}
QUIRE_INLINE Line load_line(const std::byte* p) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(p);
  return {vld1q_u8(bytes), vld1q_u8(bytes + 16), vld1q_u8(bytes + 32), vld1q_u8(bytes + 48)};
}
template <int kShift, int kMask>
QUIRE_INLINE uint8x16_t bits_at(uint8x16_t x) {
  if constexpr (kShift > 0) x = vshrq_n_u8(x, kShift);
  if constexpr (kShift < 0) x = vshlq_n_u8(x, -kShift);
  return vandq_u8(x, vdupq_n_u8(kMask));
}
template <int kShift, int kMask>
QUIRE_INLINE Line bits_at(Line x) {
  return each<Line>([](auto p) { return bits_at<kShift, kMask>(p); }, x);
}
QUIRE_INLINE Line operator|(Line x, Line y) {
  return each<Line>([](auto p, auto q) { return vorrq_u8(p, q); }, x, y);
}

/// SDOT sums four products of signed bytes into each lane, exactly. Weights of fewer than 8 bits
/// are signed bytes as they are.
template <int kBits>
QUIRE_INLINE I32x16 dot(I32x16 acc, Line w, const std::int8_t* x) {
  std::int32_t four;
  __builtin_memcpy(&four, x, sizeof(four));
  const int8x16_t columns = vreinterpretq_s8_s32(vdupq_n_s32(four));
  return each<I32x16>(
      [&](auto sum, auto weights) {
        if constexpr (kBits == 8) weights = veorq_u8(weights, vdupq_n_u8(0x80));
        return vdotq_s32(sum, vreinterpretq_s8_u8(weights), columns);
      },
      acc, w);
}
template <int kBits>
QUIRE_INLINE I32x16 dot2(I32x16 acc, Line w0, const std::int8_t* x0, Line w1,
                         const std::int8_t* x1) {
  return dot<kBits>(dot<kBits>(acc, w0, x0), w1, x1);
}

QUIRE_INLINE Pairs load_pairs(const std::uint16_t* p) {
  const auto quarter = [&](int i) { return vreinterpretq_u32_u16(vld1q_u16(p + 8 * i)); };
  return {quarter(0), quarter(1), quarter(2), quarter(3)};
}
QUIRE_INLINE Pairs load_pairs_first(const std::uint16_t* p, std::size_t n) {
  std::uint16_t pairs[32] = {};
  __builtin_memcpy(pairs, p, n * 2 * sizeof(std::uint16_t));
  return load_pairs(pairs);
}
QUIRE_INLINE Pairs splat_pair(const std::uint16_t* p) {
  std::uint32_t pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  const uint32x4_t v = vdupq_n_u32(pair);
  return {v, v, v, v};
}
QUIRE_INLINE Pairs keep_of_pairs(Pairs x, std::uint32_t mask) {
  return each<Pairs>([&](auto p) { return vandq_u32(p, vdupq_n_u32(mask)); }, x);
}
QUIRE_INLINE float32x4_t flushed(float32x4_t x) {
  const uint32x4_t bits = vreinterpretq_u32_f32(x);
  const uint32x4_t tiny = vcaltq_f32(x, vdupq_n_f32(0x1p-126f));
  return vreinterpretq_f32_u32(vbicq_u32(bits, vandq_u32(tiny, vdupq_n_u32(0x7fffffff))));
}
QUIRE_INLINE F32x16 flushed(F32x16 x) {
  return each<F32x16>([](auto p) { return flushed(p); }, x);
}
QUIRE_INLINE F32x16 dot_pairs(F32x16 acc, Pairs x, Pairs y) {
  const auto second = [](uint32x4_t p) {
    return vreinterpretq_f32_u32(vandq_u32(p, vdupq_n_u32(0xffff0000u)));
  };
  const auto first = [](uint32x4_t p) { return vreinterpretq_f32_u32(vshlq_n_u32(p, 16)); };
  return each<F32x16>(
      [&](auto sum, auto p, auto q) {
        sum = flushed(vfmaq_f32(sum, second(p), second(q)));
        return flushed(vfmaq_f32(sum, first(p), first(q)));
      },
      acc, x, y);
}
QUIRE_INLINE F32x16 store_rounded_bf16(std::uint16_t* p, F32x16 x) {
  store_bf16(p, flushed(x));
  return load_bf16(p);
}

}  // namespace
}  // namespace quire

#endif
