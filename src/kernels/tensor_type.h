#pragma once
// Element formats of weight tensors, as GGUF files store them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace quire {

/// Values are GGUF's own type ids.
enum class TensorType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kBF16 = 30,
};

struct TensorTypeInfo {
  std::string_view name;      // "Q4_K"
  std::uint32_t block_size;   // elements per block along the innermost dimension
  std::uint32_t block_bytes;  // bytes per block
};

/// nullopt for an id that is none of the formats above.
std::optional<TensorType> tensor_type_from_id(std::uint32_t gguf_id);
const TensorTypeInfo& tensor_type_info(TensorType type);

/// Expands n elements (a multiple of the block size) to f32, exactly as the format defines them:
/// this is the reference every packed format is tested against.
void dequantize(TensorType type, const std::byte* blocks, std::size_t n, float* out);

}  // namespace quire
