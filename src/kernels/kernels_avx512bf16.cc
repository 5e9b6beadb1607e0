// As kernels_avx512.cc, with products of bf16 pairs in one instruction.
#if defined(__x86_64__)
#include "kernels/simd_avx512.h"
// The wrapper comes first: what follows is written in its terms.
#include "kernels/table_inl.h"
#include "kernels/tiers.h"

namespace quire {

constinit const Kernels kAvx512Bf16Kernels = make_table("avx512bf16");

}  // namespace quire
#endif
