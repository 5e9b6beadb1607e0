#pragma once
// The tensor records of a GGUF file, checked one by one and against each other before anything is
// made of them.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/tensor_type.h"
#include "model/gguf_cursor.h"

namespace quire {

/// A tensor record that has been checked, and where in the file its data lies.
struct GgufRawTensor {
  std::string_view name;
  std::uint64_t offset = 0;  // of the record
  TensorType type = TensorType::kF32;
  std::uint32_t n_dims = 0;
  std::uint64_t ne[4] = {1, 1, 1, 1};
  std::uint64_t where = 0;  // of the data
  std::uint64_t bytes = 0;
};

/// Checks `n_tensors` records, which the cursor is at, and their places in the data section behind
/// them. `name` stands for the file.
Result<std::vector<GgufRawTensor>> walk_gguf_tensors(ByteCursor& cursor, std::uint64_t n_tensors,
                                                     std::uint64_t alignment,
                                                     std::string_view name);

}  // namespace quire
