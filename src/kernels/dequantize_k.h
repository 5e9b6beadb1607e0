#pragma once
// Expansion of one 256-element "K" superblock to f32. Scales are two-level: one or two f16 factors
// for the superblock, small integers for its 16- or 32-element groups.

#include <cstdint>
#include <cstring>

#include "base/float16.h"

namespace quire {

/// An f16 of a block, which need not be aligned.
inline float load_f16(const std::uint8_t* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return f16_to_f32(bits);
}

void dequantize_q2_k(const std::uint8_t* block, float* out);
void dequantize_q3_k(const std::uint8_t* block, float* out);
void dequantize_q4_k(const std::uint8_t* block, float* out);
void dequantize_q5_k(const std::uint8_t* block, float* out);
void dequantize_q6_k(const std::uint8_t* block, float* out);

/// The 6-bit scale and minimum of 32-element group `g` (0..7) from the 12 packed bytes of Q4_K and
/// Q5_K.
struct ScaleMin {
  std::uint8_t scale;
  std::uint8_t min;
};
ScaleMin k_scale_min(const std::uint8_t* packed, int g);

}  // namespace quire
