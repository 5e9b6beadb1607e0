#include "kernels/dequantize_k.h"

namespace quire {
namespace {

constexpr int kSuper = 256;

// 2-bit planes: 128 elements share 32 bytes; element i sits in bits 2 * (i % 128 / 32) of byte
// i % 32 of its half.
int two_bits(const std::uint8_t* q, int i) {
  return q[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
}

// Nibbles: 64 elements share 32 bytes, the first 32 of them the low halves.
int nibble(const std::uint8_t* q, int i) {
  return q[i / 64 * 32 + i % 32] >> (4 * (i % 64 / 32)) & 0xf;
}

// One bit per element: plane i / 32 of byte i % 32.
int one_bit(const std::uint8_t* q, int i) { return q[i % 32] >> (i / 32) & 1; }

}  // namespace

ScaleMin k_scale_min(const std::uint8_t* packed, int g) {
  if (g < 4)
    return {static_cast<std::uint8_t>(packed[g] & 63),
            static_cast<std::uint8_t>(packed[g + 4] & 63)};
  // Groups 4..7: low four bits in the last four bytes, top two bits above the first four groups.
  const std::uint8_t low = packed[g + 4];
  return {static_cast<std::uint8_t>((low & 0xf) | (packed[g - 4] >> 6 << 4)),
          static_cast<std::uint8_t>((low >> 4) | (packed[g] >> 6 << 4))};
}

// 16 bytes (scale nibble | min nibble) | 64 bytes of 2-bit q | f16 d | f16 dmin:
// d * scale * q - dmin * min, groups of 16
void dequantize_q2_k(const std::uint8_t* b, float* out) {
  const float d = load_f16(b + 80);
  const float dmin = load_f16(b + 82);
  for (int i = 0; i < kSuper; ++i) {
    const std::uint8_t packed = b[i / 16];
    const float scale = d * static_cast<float>(packed & 0xf);
    const float min = dmin * static_cast<float>(packed >> 4);
    out[i] = scale * static_cast<float>(two_bits(b + 16, i)) - min;
  }
}

// 32 bytes of third bits | 64 bytes of 2-bit q | 12 bytes of 6-bit scales | f16 d:
// d * (scale - 32) * (q - 4), groups of 16. A set third bit adds 4.
void dequantize_q3_k(const std::uint8_t* b, float* out) {
  const std::uint8_t* packed = b + 96;
  const float d = load_f16(b + 108);
  for (int i = 0; i < kSuper; ++i) {
    const int g = i / 16;
    const int low = packed[g % 8] >> (4 * (g / 8)) & 0xf;
    const int high = packed[8 + g % 4] >> (2 * (g / 4)) & 3;
    const float scale = d * static_cast<float>((low | high << 4) - 32);
    out[i] = scale * static_cast<float>((two_bits(b + 32, i) | one_bit(b, i) << 2) - 4);
  }
}

// f16 d | f16 dmin | 12 bytes of 6-bit scales and mins | 128 nibble bytes:
// d * scale * q - dmin * min, groups of 32
void dequantize_q4_k(const std::uint8_t* b, float* out) {
  const float d = load_f16(b);
  const float dmin = load_f16(b + 2);
  for (int g = 0; g < kSuper / 32; ++g) {
    const ScaleMin sm = k_scale_min(b + 4, g);
    const float scale = d * static_cast<float>(sm.scale);
    const float min = dmin * static_cast<float>(sm.min);
    for (int i = g * 32; i < (g + 1) * 32; ++i)
      out[i] = scale * static_cast<float>(nibble(b + 16, i)) - min;
  }
}

// As Q4_K, with 32 bytes of fifth bits before the nibbles.
void dequantize_q5_k(const std::uint8_t* b, float* out) {
  const float d = load_f16(b);
  const float dmin = load_f16(b + 2);
  for (int g = 0; g < kSuper / 32; ++g) {
    const ScaleMin sm = k_scale_min(b + 4, g);
    const float scale = d * static_cast<float>(sm.scale);
    const float min = dmin * static_cast<float>(sm.min);
    for (int i = g * 32; i < (g + 1) * 32; ++i)
      out[i] = scale * static_cast<float>(nibble(b + 48, i) | one_bit(b + 16, i) << 4) - min;
  }
}

// 128 bytes of low nibbles | 64 bytes of 2-bit tops | 16 signed scales | f16 d:
// d * scale * (q - 32), groups of 16. Nibbles come 128 elements to 64 bytes, low halves first.
void dequantize_q6_k(const std::uint8_t* b, float* out) {
  const float d = load_f16(b + 208);
  for (int i = 0; i < kSuper; ++i) {
    const int low = b[i / 128 * 64 + i % 64] >> (4 * (i % 128 / 64)) & 0xf;
    const int high = two_bits(b + 128, i);
    const float scale = d * static_cast<float>(static_cast<std::int8_t>(b[192 + i / 16]));
    out[i] = scale * static_cast<float>((low | high << 4) - 32);
  }
}

}  // namespace quire
