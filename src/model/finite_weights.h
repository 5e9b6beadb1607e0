#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/thread_pool.h"
#include "kernels/tensor_type.h"

namespace quire {

/// The first element of the first block whose numbers are not all finite. Such a weight must be
/// found while loading: rounding activations to integers would turn what it makes of them into
/// ordinary numbers, and the model would talk on. Reads only what can be infinite or NaN, which in
/// a quantized block are its f16 scales. `data` is whole blocks.
std::optional<std::size_t> find_not_finite(TensorType type, std::span<const std::byte> data);
/// The same on all threads of `pool`.
std::optional<std::size_t> find_not_finite(TensorType type, std::span<const std::byte> data,
                                           ThreadPool& pool);

}  // namespace quire
