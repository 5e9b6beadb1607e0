#pragma once
// The densest multiply-adds of a tier, fed from registers and the first cache: what the roofline
// calls the int8 peak, which linear() is measured against, and the bf16 peak.

#include "kernels/kernels.h"

namespace quire {
namespace {

/// Sums that grow side by side: enough to hide the latency of a multiply-add of one register, few
/// enough to stay in registers where a vector takes two.
constexpr std::size_t kPeakSums = alignof(I32x16) == 64 ? 12 : 4;

static_assert(kDotPeakTokens % kPeakSums == 0);

void dot_peak(const std::byte* weights, const std::int8_t* x, std::size_t n_rounds,
              std::int32_t* out) {
  for (std::size_t first = 0; first < kDotPeakTokens; first += kPeakSums) {
    I32x16 acc[kPeakSums];
#pragma GCC unroll 12
    for (std::size_t t = 0; t < kPeakSums; ++t) acc[t] = splat_int(0);
    for (std::size_t round = 0; round < n_rounds; ++round) {
      // All rounds are the same, which the compiler must not find out.
      asm volatile("" ::: "memory");
      const Line w0 = load_line(weights);
      const Line w1 = load_line(weights + 64);
#pragma GCC unroll 12
      for (std::size_t t = 0; t < kPeakSums; ++t) {
        const std::int8_t* columns = x + (first + t) * 8;
        acc[t] = dot2<4>(acc[t], w0, columns, w1, columns + 4);
      }
    }
#pragma GCC unroll 12
    for (std::size_t t = 0; t < kPeakSums; ++t) {
      store_int(out + (first + t) * kPanelRows, acc[t]);
    }
  }
}

#if defined(__AVX512BF16__)
void pair_peak(const std::uint16_t* weights, const std::uint16_t* x, std::size_t n_rounds,
               float* out) {
  F32x16 acc[kDotPeakTokens];
#pragma GCC unroll 12
  for (std::size_t t = 0; t < kDotPeakTokens; ++t) acc[t] = splat(0);
  for (std::size_t round = 0; round < n_rounds; ++round) {
    asm volatile("" ::: "memory");
    const Pairs w0 = load_pairs(weights);
    const Pairs w1 = load_pairs(weights + 32);
#pragma GCC unroll 12
    for (std::size_t t = 0; t < kDotPeakTokens; ++t) {
      acc[t] = dot_pairs(acc[t], w0, splat_pair(x + t * 4));
      acc[t] = dot_pairs(acc[t], w1, splat_pair(x + t * 4 + 2));
    }
  }
#pragma GCC unroll 12
  for (std::size_t t = 0; t < kDotPeakTokens; ++t) store(out + t * kPanelRows, acc[t]);
}
constexpr auto kPairPeak = pair_peak;
#else
constexpr decltype(Kernels::pair_peak) kPairPeak = nullptr;
#endif

}  // namespace
}  // namespace quire
