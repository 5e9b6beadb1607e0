// Compiled for AArch64 with dot products: must not emit anything but its own table and internal
// functions, since an inline function shared with other sources could be the copy the linker keeps.
#if defined(__aarch64__)
#include "kernels/simd_neon.h"
// The wrapper comes first: what follows is written in its terms.
#include "kernels/table_inl.h"
#include "kernels/tiers.h"

namespace quire {

constinit const Kernels kNeonKernels = make_table("neon");

}  // namespace quire
#endif
