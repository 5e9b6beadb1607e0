// The portable tier: what every other one must reproduce bit for bit.
#include "kernels/simd_scalar.h"
// The wrapper comes first: what follows is written in its terms.
#include "kernels/table_inl.h"
#include "kernels/tiers.h"

namespace quire {

constinit const Kernels kScalarKernels = make_table("scalar");

}  // namespace quire
