#include "kernels/tensor_type.h"

#include "base/check.h"

namespace quire {

std::optional<TensorType> tensor_type_from_id(std::uint32_t gguf_id) {
  switch (const auto type = static_cast<TensorType>(gguf_id); type) {
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kQ4_0:
    case TensorType::kQ4_1:
    case TensorType::kQ5_0:
    case TensorType::kQ5_1:
    case TensorType::kQ8_0:
    case TensorType::kQ2_K:
    case TensorType::kQ3_K:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
    case TensorType::kQ6_K:
    case TensorType::kIQ4_NL:
    case TensorType::kBF16:
      return type;
  }
  return std::nullopt;
}

const TensorTypeInfo& tensor_type_info(TensorType type) {
  // Bytes per block are written as the sum of the block's parts, in the order they are stored.
  static constexpr TensorTypeInfo kF32{"F32", 1, 4};
  static constexpr TensorTypeInfo kF16{"F16", 1, 2};
  static constexpr TensorTypeInfo kBF16{"BF16", 1, 2};
  static constexpr TensorTypeInfo kQ4_0{"Q4_0", 32, 2 + 16};
  static constexpr TensorTypeInfo kQ4_1{"Q4_1", 32, 2 + 2 + 16};
  static constexpr TensorTypeInfo kQ5_0{"Q5_0", 32, 2 + 4 + 16};
  static constexpr TensorTypeInfo kQ5_1{"Q5_1", 32, 2 + 2 + 4 + 16};
  static constexpr TensorTypeInfo kQ8_0{"Q8_0", 32, 2 + 32};
  static constexpr TensorTypeInfo kQ2_K{"Q2_K", 256, 16 + 64 + 2 + 2};
  static constexpr TensorTypeInfo kQ3_K{"Q3_K", 256, 32 + 64 + 12 + 2};
  static constexpr TensorTypeInfo kQ4_K{"Q4_K", 256, 2 + 2 + 12 + 128};
  static constexpr TensorTypeInfo kQ5_K{"Q5_K", 256, 2 + 2 + 12 + 32 + 128};
  static constexpr TensorTypeInfo kQ6_K{"Q6_K", 256, 128 + 64 + 16 + 2};
  static constexpr TensorTypeInfo kIQ4_NL{"IQ4_NL", 32, 2 + 16};
  switch (type) {
    case TensorType::kF32:
      return kF32;
    case TensorType::kF16:
      return kF16;
    case TensorType::kBF16:
      return kBF16;
    case TensorType::kQ4_0:
      return kQ4_0;
    case TensorType::kQ4_1:
      return kQ4_1;
    case TensorType::kQ5_0:
      return kQ5_0;
    case TensorType::kQ5_1:
      return kQ5_1;
    case TensorType::kQ8_0:
      return kQ8_0;
    case TensorType::kQ2_K:
      return kQ2_K;
    case TensorType::kQ3_K:
      return kQ3_K;
    case TensorType::kQ4_K:
      return kQ4_K;
    case TensorType::kQ5_K:
      return kQ5_K;
    case TensorType::kQ6_K:
      return kQ6_K;
    case TensorType::kIQ4_NL:
      return kIQ4_NL;
  }
  check_failed("a TensorType enumerator", __FILE__, __LINE__);
}

}  // namespace quire
