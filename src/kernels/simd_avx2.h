#pragma once
// The 16-lane vector of the AVX2 tiers (AVX2, FMA, F16C; avx2vnni has AVX-VNNI too): two halves of
// 8 lanes; see simd_scalar.h for the meaning of each operation. Include only from kernels_avx2*.cc.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define QUIRE_INLINE [[gnu::always_inline]] inline

// Where there is an instruction that sums four products of an unsigned and a signed byte.
#if defined(__AVXVNNI__)
#define QUIRE_DPBUSD _mm256_dpbusd_avx_epi32
#elif defined(__AVX512VNNI__) && defined(__AVX512VL__)
#define QUIRE_DPBUSD _mm256_dpbusd_epi32  // in the encoding of AVX-512, for the tests alone
#endif

namespace quire {
namespace {

constexpr int kMaxQuantTile = 4;
constexpr int kMaxFloatTile = 1;
constexpr int kMaxAttentionRows = 2;
constexpr int kMixChunks = 2;
#if defined(QUIRE_DPBUSD)
constexpr bool kDotIsBiased8 = true;
#else
constexpr bool kDotIsBiased8 = false;  // dot2<8> takes 128 off the weights itself
#endif

struct F32x16 {
  __m256 lo, hi;
};
struct I32x16 {
  __m256i lo, hi;
};
struct Line {
  __m256i lo, hi;
};
struct Mask {
  __m256 lo, hi;
};
struct Pairs {
  __m256i lo, hi;
};

QUIRE_INLINE F32x16 splat(float x) {
  const __m256 v = _mm256_set1_ps(x);
  return {v, v};
}
QUIRE_INLINE F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
QUIRE_INLINE F32x16 load_first(const float* p, std::size_t n) {
  float lanes[16] = {};
  __builtin_memcpy(lanes, p, n * sizeof(float));
  return load(lanes);
}
QUIRE_INLINE void store(float* p, F32x16 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
QUIRE_INLINE void store_first(float* p, F32x16 a, std::size_t n) {
  float lanes[16];
  store(lanes, a);
  __builtin_memcpy(p, lanes, n * sizeof(float));
}
QUIRE_INLINE __m128i load_quarter(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
QUIRE_INLINE F32x16 load_f16(const std::uint16_t* p) {
  return {_mm256_cvtph_ps(load_quarter(p)), _mm256_cvtph_ps(load_quarter(p + 8))};
}
QUIRE_INLINE __m256 widen_bf16(const std::uint16_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_quarter(p)), 16));
}
QUIRE_INLINE F32x16 load_bf16(const std::uint16_t* p) { return {widen_bf16(p), widen_bf16(p + 8)}; }
QUIRE_INLINE void store_quarter(std::uint16_t* p, __m128i a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), a);
}
QUIRE_INLINE void store_f16(std::uint16_t* p, F32x16 a) {
  store_quarter(p, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  store_quarter(p + 8, _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
QUIRE_INLINE __m256i narrow_bf16(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i top = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i quiet = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, quiet, nan);
}
QUIRE_INLINE void store_bf16(std::uint16_t* p, F32x16 a) {
  const __m256i packed = _mm256_packus_epi32(narrow_bf16(a.lo), narrow_bf16(a.hi));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
QUIRE_INLINE __m256 widen_s8(const std::int8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}
QUIRE_INLINE F32x16 load_s8(const std::int8_t* p) { return {widen_s8(p), widen_s8(p + 8)}; }

QUIRE_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
QUIRE_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
QUIRE_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
QUIRE_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
QUIRE_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
QUIRE_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
QUIRE_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
QUIRE_INLINE float square_root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

QUIRE_INLINE Mask operator<(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
QUIRE_INLINE __m256 lanes_between(__m256i lanes, int begin, int end) {
  const __m256i from_begin = _mm256_cmpgt_epi32(lanes, _mm256_set1_epi32(begin - 1));
  const __m256i below_end = _mm256_cmpgt_epi32(_mm256_set1_epi32(end), lanes);
  return _mm256_castsi256_ps(_mm256_and_si256(from_begin, below_end));
}
QUIRE_INLINE Mask lane_range(int begin, int end) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {lanes_between(lanes, begin, end),
          lanes_between(_mm256_add_epi32(lanes, _mm256_set1_epi32(8)), begin, end)};
}
QUIRE_INLINE __m256 lanes_of_twos(__m256i fours, int low, int high) {
  const __m256i bits = _mm256_setr_epi32(low, low, low, low, high, high, high, high);
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(fours, bits), bits));
}
QUIRE_INLINE Mask lanes_of_fours(unsigned fours) {
  const __m256i all = _mm256_set1_epi32(static_cast<int>(fours));
  return {lanes_of_twos(all, 1, 2), lanes_of_twos(all, 4, 8)};
}
QUIRE_INLINE F32x16 select(Mask mask, F32x16 yes, F32x16 no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, mask.lo), _mm256_blendv_ps(no.hi, yes.hi, mask.hi)};
}

QUIRE_INLINE float reduce_add(F32x16 a) {
  const __m256 v8 = _mm256_add_ps(a.lo, a.hi);
  const __m128 v4 = _mm_add_ps(_mm256_castps256_ps128(v8), _mm256_extractf128_ps(v8, 1));
  const __m128 v2 = _mm_add_ps(v4, _mm_movehl_ps(v4, v4));
  return _mm_cvtss_f32(_mm_add_ss(v2, _mm_movehdup_ps(v2)));
}
QUIRE_INLINE float reduce_max(F32x16 a) {
  const __m256 v8 = _mm256_max_ps(a.lo, a.hi);
  const __m128 v4 = _mm_max_ps(_mm256_castps256_ps128(v8), _mm256_extractf128_ps(v8, 1));
  const __m128 v2 = _mm_max_ps(v4, _mm_movehl_ps(v4, v4));
  return _mm_cvtss_f32(_mm_max_ss(v2, _mm_movehdup_ps(v2)));
}
QUIRE_INLINE __m128i upper_half(__m256i a) { return _mm256_extracti128_si256(a, 1); }
QUIRE_INLINE std::int32_t reduce_add(I32x16 a) {
  const __m256i v8 = _mm256_add_epi32(a.lo, a.hi);
  const __m128i v4 = _mm_add_epi32(_mm256_castsi256_si128(v8), upper_half(v8));
  const __m128i v2 = _mm_add_epi32(v4, _mm_shuffle_epi32(v4, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(v2, _mm_shuffle_epi32(v2, 0xb1)));
}
QUIRE_INLINE std::int32_t reduce_max(I32x16 a) {
  const __m256i v8 = _mm256_max_epi32(a.lo, a.hi);
  const __m128i v4 = _mm_max_epi32(_mm256_castsi256_si128(v8), upper_half(v8));
  const __m128i v2 = _mm_max_epi32(v4, _mm_shuffle_epi32(v4, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(v2, _mm_shuffle_epi32(v2, 0xb1)));
}

QUIRE_INLINE I32x16 splat_int(std::int32_t x) {
  const __m256i v = _mm256_set1_epi32(x);
  return {v, v};
}
QUIRE_INLINE I32x16 operator+(I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
QUIRE_INLINE I32x16 operator*(I32x16 a, I32x16 b) {
  return {_mm256_mullo_epi32(a.lo, b.lo), _mm256_mullo_epi32(a.hi, b.hi)};
}
QUIRE_INLINE I32x16 max(I32x16 a, I32x16 b) {
  return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)};
}
QUIRE_INLINE I32x16 magnitude_bits(F32x16 a) {
  const __m256i mask = _mm256_set1_epi32(0x7fffffff);
  return {_mm256_and_si256(_mm256_castps_si256(a.lo), mask),
          _mm256_and_si256(_mm256_castps_si256(a.hi), mask)};
}
QUIRE_INLINE __m256i max_of_four(__m256i a) {
  const __m256i pairs = _mm256_max_epi32(a, _mm256_shuffle_epi32(a, 0xb1));
  return _mm256_max_epi32(pairs, _mm256_shuffle_epi32(pairs, 0x4e));
}
QUIRE_INLINE I32x16 max_of_four(I32x16 a) { return {max_of_four(a.lo), max_of_four(a.hi)}; }
QUIRE_INLINE void store_int(std::int32_t* p, I32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.hi);
}
QUIRE_INLINE F32x16 to_float(I32x16 a) {
  return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}
QUIRE_INLINE I32x16 round_to_int(F32x16 a) {
  return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)};
}
QUIRE_INLINE __m256 power_of_two(__m256 a) {
  const __m256i biased = _mm256_add_epi32(_mm256_castps_si256(a), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}
QUIRE_INLINE F32x16 power_of_two(F32x16 a) { return {power_of_two(a.lo), power_of_two(a.hi)}; }
QUIRE_INLINE void store_s8(std::int8_t* p, I32x16 a) {
  const __m256i low_byte = _mm256_set1_epi32(0xff);
  const __m256i words = _mm256_permute4x64_epi64(
      _mm256_packus_epi32(_mm256_and_si256(a.lo, low_byte), _mm256_and_si256(a.hi, low_byte)),
      0xd8);
  const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), upper_half(words));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

QUIRE_INLINE void store_line(std::byte* p, Line a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), a.hi);
}
QUIRE_INLINE Line load_line(const std::byte* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
template <int kShift, int kMask>
QUIRE_INLINE Line bits_at(Line a) {
  if constexpr (kShift > 0) {
    a = {_mm256_srli_epi16(a.lo, kShift), _mm256_srli_epi16(a.hi, kShift)};
  }
  if constexpr (kShift < 0) {
    a = {_mm256_slli_epi16(a.lo, -kShift), _mm256_slli_epi16(a.hi, -kShift)};
  }
  const __m256i mask = _mm256_set1_epi8(kMask);
  return {_mm256_and_si256(a.lo, mask), _mm256_and_si256(a.hi, mask)};
}
QUIRE_INLINE Line operator|(Line a, Line b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}

QUIRE_INLINE __m256i splat_columns(const std::int8_t* x) {
  std::int32_t four;
  __builtin_memcpy(&four, x, sizeof(four));
  return _mm256_set1_epi32(four);
}
#if defined(QUIRE_DPBUSD)
template <int kBits>
QUIRE_INLINE __m256i dot_half(__m256i acc, __m256i w, __m256i x) {
  return QUIRE_DPBUSD(acc, w, x);
}
template <int kBits>
QUIRE_INLINE __m256i dot2_half(__m256i acc, __m256i w0, __m256i x0, __m256i w1, __m256i x1) {
  return QUIRE_DPBUSD(QUIRE_DPBUSD(acc, w0, x0), w1, x1);
}
#else
/// maddubs saturates at 32767. With at most 6 bits two lines fit: 2 * 2 * 63 * 127 = 32004. With 8
/// bits the sign moves to x (never -128): 2 * 128 * 127 = 32512, one line at a time.
template <int kBits>
QUIRE_INLINE __m256i dot2_half(__m256i acc, __m256i w0, __m256i x0, __m256i w1, __m256i x1) {
  const __m256i ones = _mm256_set1_epi16(1);
  if constexpr (kBits == 8) {
    const __m256i flip = _mm256_set1_epi8(-128);
    const __m256i s0 = _mm256_xor_si256(w0, flip);
    const __m256i s1 = _mm256_xor_si256(w1, flip);
    const __m256i p0 = _mm256_maddubs_epi16(_mm256_abs_epi8(s0), _mm256_sign_epi8(x0, s0));
    const __m256i p1 = _mm256_maddubs_epi16(_mm256_abs_epi8(s1), _mm256_sign_epi8(x1, s1));
    acc = _mm256_add_epi32(acc, _mm256_madd_epi16(p0, ones));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(p1, ones));
  } else {
    const __m256i p = _mm256_add_epi16(_mm256_maddubs_epi16(w0, x0), _mm256_maddubs_epi16(w1, x1));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(p, ones));
  }
}
template <int kBits>
QUIRE_INLINE __m256i dot_half(__m256i acc, __m256i w, __m256i x) {
  const __m256i zero = _mm256_setzero_si256();
  return dot2_half<kBits>(acc, w, x, zero, zero);
}
#endif
template <int kBits>
QUIRE_INLINE I32x16 dot2(I32x16 acc, Line w0, const std::int8_t* x0, Line w1,
                         const std::int8_t* x1) {
  const __m256i v0 = splat_columns(x0);
  const __m256i v1 = splat_columns(x1);
  return {dot2_half<kBits>(acc.lo, w0.lo, v0, w1.lo, v1),
          dot2_half<kBits>(acc.hi, w0.hi, v0, w1.hi, v1)};
}
template <int kBits>
QUIRE_INLINE I32x16 dot(I32x16 acc, Line w, const std::int8_t* x) {
  const __m256i v = splat_columns(x);
  return {dot_half<kBits>(acc.lo, w.lo, v), dot_half<kBits>(acc.hi, w.hi, v)};
}

QUIRE_INLINE Pairs load_pairs(const std::uint16_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 16))};
}
QUIRE_INLINE Pairs load_pairs_first(const std::uint16_t* p, std::size_t n) {
  std::uint16_t pairs[32] = {};
  __builtin_memcpy(pairs, p, n * 2 * sizeof(std::uint16_t));
  return load_pairs(pairs);
}
QUIRE_INLINE Pairs splat_pair(const std::uint16_t* p) {
  std::int32_t pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return {_mm256_set1_epi32(pair), _mm256_set1_epi32(pair)};
}
QUIRE_INLINE Pairs keep_of_pairs(Pairs a, std::uint32_t mask) {
  const __m256i kept = _mm256_set1_epi32(static_cast<std::int32_t>(mask));
  return {_mm256_and_si256(a.lo, kept), _mm256_and_si256(a.hi, kept)};
}
QUIRE_INLINE __m256 flushed(__m256 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  const __m256 tiny =
      _mm256_cmp_ps(_mm256_andnot_ps(sign, a), _mm256_set1_ps(0x1p-126f), _CMP_LT_OQ);
  return _mm256_blendv_ps(a, _mm256_and_ps(a, sign), tiny);
}
QUIRE_INLINE F32x16 flushed(F32x16 a) { return {flushed(a.lo), flushed(a.hi)}; }
QUIRE_INLINE __m256 dot_pairs(__m256 acc, __m256i a, __m256i b) {
  const __m256i high = _mm256_set1_epi32(static_cast<std::int32_t>(0xffff0000u));
  const auto second = [&](__m256i x) { return _mm256_castsi256_ps(_mm256_and_si256(x, high)); };
  const auto first = [](__m256i x) { return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16)); };
  acc = flushed(_mm256_fmadd_ps(second(a), second(b), acc));
  return flushed(_mm256_fmadd_ps(first(a), first(b), acc));
}
QUIRE_INLINE F32x16 dot_pairs(F32x16 acc, Pairs a, Pairs b) {
  return {dot_pairs(acc.lo, a.lo, b.lo), dot_pairs(acc.hi, a.hi, b.hi)};
}
QUIRE_INLINE F32x16 store_rounded_bf16(std::uint16_t* p, F32x16 a) {
  store_bf16(p, flushed(a));
  return load_bf16(p);
}

}  // namespace
}  // namespace quire
