#pragma once
// The tables that exist in this build; dispatch.cc picks from them.

#include "kernels/kernels.h"

namespace quire {

extern const Kernels kScalarKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;        // AVX2, FMA, F16C
extern const Kernels kAvx2VnniKernels;    // and AVX-VNNI
extern const Kernels kAvx512Kernels;      // AVX-512 F, BW, DQ, VL, VNNI
extern const Kernels kAvx512Bf16Kernels;  // and BF16
#elif defined(__aarch64__)
extern const Kernels kNeonKernels;  // Advanced SIMD with dot products
#endif

}  // namespace quire
