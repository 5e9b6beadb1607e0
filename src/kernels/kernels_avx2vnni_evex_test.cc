// The tier avx2vnni with its one instruction in the encoding of AVX-512, so that a CPU that has
// only that one compares it with scalar too (tested_kernels() in kernels_testing.h).
#if defined(__x86_64__)
#include "kernels/simd_avx2.h"
// The wrapper comes first: what follows is written in its terms.
#include "kernels/table_inl.h"

namespace quire {

extern const Kernels kAvx2VnniEvexKernels;
constinit const Kernels kAvx2VnniEvexKernels = make_table("avx2vnni, EVEX");

}  // namespace quire
#endif
