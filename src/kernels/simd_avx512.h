#pragma once
// The 16-lane vector of the AVX-512 tier (F, BW, DQ, VL, VNNI); see simd_scalar.h for the meaning
// of each operation. Include only from kernels_avx512.cc.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define QUIRE_INLINE [[gnu::always_inline]] inline

namespace quire {
namespace {

constexpr int kMaxQuantTile = 8;
constexpr int kMaxFloatTile = 4;
constexpr int kMaxAttentionRows = 6;
constexpr int kMixChunks = 4;
constexpr bool kDotIsBiased8 = true;

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};
struct Line {
  __m512i v;
};
struct Mask {
  __mmask16 v;
};
struct Pairs {
  __m512i v;
};

QUIRE_INLINE __mmask16 first_lanes(std::size_t n) { return static_cast<__mmask16>((1u << n) - 1u); }

QUIRE_INLINE F32x16 splat(float x) { return {_mm512_set1_ps(x)}; }
QUIRE_INLINE F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
QUIRE_INLINE F32x16 load_first(const float* p, std::size_t n) {
  return {_mm512_maskz_loadu_ps(first_lanes(n), p)};
}
QUIRE_INLINE void store(float* p, F32x16 a) { _mm512_storeu_ps(p, a.v); }
QUIRE_INLINE void store_first(float* p, F32x16 a, std::size_t n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), a.v);
}
QUIRE_INLINE __m256i load_half(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
QUIRE_INLINE F32x16 load_f16(const std::uint16_t* p) { return {_mm512_cvtph_ps(load_half(p))}; }
QUIRE_INLINE F32x16 load_bf16(const std::uint16_t* p) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_half(p)), 16))};
}
QUIRE_INLINE void store_half(std::uint16_t* p, __m256i a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a);
}
QUIRE_INLINE void store_f16(std::uint16_t* p, F32x16 a) {
  store_half(p, _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
QUIRE_INLINE void store_bf16(std::uint16_t* p, F32x16 a) {
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i top = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(top, _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_srli_epi32(
      _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
  const __m512i quiet = _mm512_or_si512(top, _mm512_set1_epi32(0x40));
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  store_half(p, _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(nan, rounded, quiet)));
}
QUIRE_INLINE F32x16 load_s8(const std::int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
}

QUIRE_INLINE F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
QUIRE_INLINE F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
QUIRE_INLINE F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
QUIRE_INLINE F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
QUIRE_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
QUIRE_INLINE F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
QUIRE_INLINE F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
QUIRE_INLINE float square_root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

QUIRE_INLINE Mask operator<(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
}
QUIRE_INLINE Mask lane_range(int begin, int end) {
  const unsigned below_end = (1u << end) - 1u;
  const unsigned below_begin = (1u << begin) - 1u;
  return {static_cast<__mmask16>(below_end & ~below_begin)};
}
QUIRE_INLINE Mask lanes_of_fours(unsigned fours) {
  // The bits go to lanes 0, 4, 8, 12, and each of those fills the three after it.
  const unsigned spread = (fours & 1u) | (fours & 2u) << 3 | (fours & 4u) << 6 | (fours & 8u) << 9;
  return {static_cast<__mmask16>(spread * 15u)};
}
QUIRE_INLINE F32x16 select(Mask mask, F32x16 yes, F32x16 no) {
  return {_mm512_mask_blend_ps(mask.v, no.v, yes.v)};
}

QUIRE_INLINE float reduce_add(F32x16 a) {
  const __m256 v8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 v4 = _mm_add_ps(_mm256_castps256_ps128(v8), _mm256_extractf128_ps(v8, 1));
  const __m128 v2 = _mm_add_ps(v4, _mm_movehl_ps(v4, v4));
  return _mm_cvtss_f32(_mm_add_ss(v2, _mm_movehdup_ps(v2)));
}
QUIRE_INLINE float reduce_max(F32x16 a) {
  const __m256 v8 = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 v4 = _mm_max_ps(_mm256_castps256_ps128(v8), _mm256_extractf128_ps(v8, 1));
  const __m128 v2 = _mm_max_ps(v4, _mm_movehl_ps(v4, v4));
  return _mm_cvtss_f32(_mm_max_ss(v2, _mm_movehdup_ps(v2)));
}
QUIRE_INLINE std::int32_t reduce_add(I32x16 a) { return _mm512_reduce_add_epi32(a.v); }
QUIRE_INLINE std::int32_t reduce_max(I32x16 a) { return _mm512_reduce_max_epi32(a.v); }

QUIRE_INLINE I32x16 splat_int(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
QUIRE_INLINE I32x16 operator+(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
QUIRE_INLINE I32x16 operator*(I32x16 a, I32x16 b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
QUIRE_INLINE I32x16 max(I32x16 a, I32x16 b) { return {_mm512_max_epi32(a.v, b.v)}; }
QUIRE_INLINE I32x16 magnitude_bits(F32x16 a) {
  return {_mm512_and_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(0x7fffffff))};
}
QUIRE_INLINE I32x16 max_of_four(I32x16 a) {
  const __m512i pairs = _mm512_max_epi32(a.v, _mm512_shuffle_epi32(a.v, _MM_PERM_CDAB));
  return {_mm512_max_epi32(pairs, _mm512_shuffle_epi32(pairs, _MM_PERM_BADC))};
}
QUIRE_INLINE void store_int(std::int32_t* p, I32x16 a) { _mm512_storeu_si512(p, a.v); }
QUIRE_INLINE F32x16 to_float(I32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
QUIRE_INLINE I32x16 round_to_int(F32x16 a) { return {_mm512_cvtps_epi32(a.v)}; }
QUIRE_INLINE F32x16 power_of_two(F32x16 a) {
  const __m512i biased = _mm512_add_epi32(_mm512_castps_si512(a.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(biased, 23))};
}
QUIRE_INLINE void store_s8(std::int8_t* p, I32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}

QUIRE_INLINE void store_line(std::byte* p, Line a) { _mm512_storeu_si512(p, a.v); }
QUIRE_INLINE Line load_line(const std::byte* p) { return {_mm512_loadu_si512(p)}; }
template <int kShift, int kMask>
QUIRE_INLINE Line bits_at(Line a) {
  __m512i v = a.v;
  if constexpr (kShift > 0) v = _mm512_srli_epi16(v, kShift);
  if constexpr (kShift < 0) v = _mm512_slli_epi16(v, -kShift);
  return {_mm512_and_si512(v, _mm512_set1_epi8(kMask))};
}
QUIRE_INLINE Line operator|(Line a, Line b) { return {_mm512_or_si512(a.v, b.v)}; }

QUIRE_INLINE __m512i splat_columns(const std::int8_t* x) {
  std::int32_t four;
  __builtin_memcpy(&four, x, sizeof(four));
  return _mm512_set1_epi32(four);
}
template <int kBits>
QUIRE_INLINE I32x16 dot(I32x16 acc, Line w, const std::int8_t* x) {
  return {_mm512_dpbusd_epi32(acc.v, w.v, splat_columns(x))};
}
template <int kBits>
QUIRE_INLINE I32x16 dot2(I32x16 acc, Line w0, const std::int8_t* x0, Line w1,
                         const std::int8_t* x1) {
  return dot<kBits>(dot<kBits>(acc, w0, x0), w1, x1);
}

QUIRE_INLINE Pairs load_pairs(const std::uint16_t* p) { return {_mm512_loadu_si512(p)}; }
QUIRE_INLINE Pairs load_pairs_first(const std::uint16_t* p, std::size_t n) {
  return {_mm512_maskz_loadu_epi32(first_lanes(n), p)};
}
QUIRE_INLINE Pairs splat_pair(const std::uint16_t* p) {
  std::int32_t pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return {_mm512_set1_epi32(pair)};
}
QUIRE_INLINE Pairs keep_of_pairs(Pairs a, std::uint32_t mask) {
  return {_mm512_and_si512(a.v, _mm512_set1_epi32(static_cast<std::int32_t>(mask)))};
}
QUIRE_INLINE F32x16 flushed(F32x16 a) {
  const __m512i magnitude =
      _mm512_and_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(0x7fffffff));
  const __mmask16 tiny = _mm512_cmplt_epi32_mask(magnitude, _mm512_set1_epi32(0x00800000));
  const __m512i sign = _mm512_andnot_si512(_mm512_set1_epi32(0x7fffffff), _mm512_castps_si512(a.v));
  return {_mm512_castsi512_ps(_mm512_mask_mov_epi32(_mm512_castps_si512(a.v), tiny, sign))};
}
#if defined(__AVX512BF16__)
QUIRE_INLINE F32x16 dot_pairs(F32x16 acc, Pairs a, Pairs b) {
  return {_mm512_dpbf16_ps(acc.v, (__m512bh)a.v, (__m512bh)b.v)};
}
QUIRE_INLINE F32x16 store_rounded_bf16(std::uint16_t* p, F32x16 a) {
  const __m256i half = (__m256i)_mm512_cvtneps_pbh(a.v);
  store_half(p, half);
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
}
#else
QUIRE_INLINE F32x16 dot_pairs(F32x16 acc, Pairs a, Pairs b) {
  const __m512i high = _mm512_set1_epi32(static_cast<std::int32_t>(0xffff0000u));
  const auto second = [&](Pairs x) {
    return F32x16{_mm512_castsi512_ps(_mm512_and_si512(x.v, high))};
  };
  const auto first = [](Pairs x) {
    return F32x16{_mm512_castsi512_ps(_mm512_slli_epi32(x.v, 16))};
  };
  return flushed(fma(first(a), first(b), flushed(fma(second(a), second(b), acc))));
}
QUIRE_INLINE F32x16 store_rounded_bf16(std::uint16_t* p, F32x16 a) {
  store_bf16(p, flushed(a));
  return load_bf16(p);
}
#endif

}  // namespace
}  // namespace quire
