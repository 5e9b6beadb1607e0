#pragma once
// The tables that exist in this build; dispatch.cc picks from them.

#include "kernels/kernels.h"

namespace quire {

extern const Kernels kScalarKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;        // AVX2, FMA, F16C
extern const Kernels kAvx512Kernels;      // AVX-512 F, BW, DQ, VL, VNNI
extern const Kernels kAvx512Bf16Kernels;  // and BF16
#endif

}  // namespace quire
