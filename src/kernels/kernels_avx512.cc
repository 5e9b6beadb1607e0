// Compiled for AVX-512: must not emit anything but its own table and internal functions, since an
// inline function shared with other sources could be the copy the linker keeps.
#if defined(__x86_64__)
#include "kernels/simd_avx512.h"
// The wrapper comes first: what follows is written in its terms.
#include "kernels/table_inl.h"
#include "kernels/tiers.h"

namespace quire {

constinit const Kernels kAvx512Kernels = make_table("avx512");

}  // namespace quire
#endif
