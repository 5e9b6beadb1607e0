#pragma once
// Reads one quantized GGUF block into plain integers, for the packer. (dequantize() turns the same
// bytes into floats, by separate code: the tests hold one against the other.)

#include <cstddef>
#include <cstdint>

#include "kernels/tensor_type.h"

namespace quire {

/// Weights are (q - zero) * d [+ m] for 32-element types; for the K types
/// (q - zero) * (d * sub_scale[g]) [- m * sub_min[g]], where g counts groups of 32 elements (Q4_K,
/// Q5_K) or 16 (Q2_K, Q3_K, Q6_K). The zero point is QuantSpec's.
struct WeightBlock {
  std::uint8_t q[256] = {};  // 32 used by the 32-element types
  std::int8_t sub_scale[16] = {};
  std::int8_t sub_min[16] = {};
  std::uint16_t d = 0;  // f16 bits
  std::uint16_t m = 0;
};

/// Any quantized type of TensorType.
void read_weight_block(TensorType type, const std::byte* bytes, WeightBlock& out);

}  // namespace quire
