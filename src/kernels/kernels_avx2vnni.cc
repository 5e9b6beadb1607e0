// As kernels_avx2.cc, with sums of four int8 products in one instruction (AVX-VNNI).
#if defined(__x86_64__)
#include "kernels/simd_avx2.h"
// The wrapper comes first: what follows is written in its terms.
#include "kernels/table_inl.h"
#include "kernels/tiers.h"

namespace quire {

constinit const Kernels kAvx2VnniKernels = make_table("avx2vnni");

}  // namespace quire
#endif
