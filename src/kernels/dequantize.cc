// One small function per block format; dequantize() at the end picks one. Plain loops in the
// order the format defines: this is the reference, not the fast path.

#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/float16.h"
#include "kernels/dequantize_k.h"
#include "kernels/tensor_type.h"

namespace quire {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF blocks are read in place");

template <typename T>
T load(const std::uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof value);  // blocks are not aligned
  return value;
}

// The 4-bit formats keep element j in the low nibble of byte j and element j + 16 in the high one.
constexpr int kHalf = 16;

// f16 d | 16 nibbles bytes: d * (q - 8)
void dequantize_q4_0(const std::uint8_t* b, float* out) {
  const float d = load_f16(b);
  for (int j = 0; j < kHalf; ++j) {
    out[j] = d * static_cast<float>((b[2 + j] & 0xf) - 8);
    out[j + kHalf] = d * static_cast<float>((b[2 + j] >> 4) - 8);
  }
}

// f16 d | f16 m | 16 nibble bytes: d * q + m
void dequantize_q4_1(const std::uint8_t* b, float* out) {
  const float d = load_f16(b);
  const float m = load_f16(b + 2);
  for (int j = 0; j < kHalf; ++j) {
    out[j] = d * static_cast<float>(b[4 + j] & 0xf) + m;
    out[j + kHalf] = d * static_cast<float>(b[4 + j] >> 4) + m;
  }
}

// Element j of a block whose fifth bits are the 32 bits of `high`, in element order.
int five_bits(const std::uint8_t* nibbles, std::uint32_t high, int j) {
  const int low = j < kHalf ? nibbles[j] & 0xf : nibbles[j - kHalf] >> 4;
  return low | static_cast<int>((high >> j & 1u) << 4);
}

// f16 d | 32 fifth bits | 16 nibble bytes: d * (q - 16)
void dequantize_q5_0(const std::uint8_t* b, float* out) {
  const float d = load_f16(b);
  const auto high = load<std::uint32_t>(b + 2);
  for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(five_bits(b + 6, high, j) - 16);
}

// f16 d | f16 m | 32 fifth bits | 16 nibble bytes: d * q + m
void dequantize_q5_1(const std::uint8_t* b, float* out) {
  const float d = load_f16(b);
  const float m = load_f16(b + 2);
  const auto high = load<std::uint32_t>(b + 4);
  for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(five_bits(b + 8, high, j)) + m;
}

// f16 d | 32 signed bytes: d * q
void dequantize_q8_0(const std::uint8_t* b, float* out) {
  const float d = load_f16(b);
  for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(static_cast<std::int8_t>(b[2 + j]));
}

// f16 d | 16 nibble bytes, each an index into the format's fixed table of levels
void dequantize_iq4_nl(const std::uint8_t* b, float* out) {
  static constexpr std::array<std::int8_t, 16> kLevels = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                          1,    13,   25,  38,  53,  69,  89,  113};
  const float d = load_f16(b);
  for (int j = 0; j < kHalf; ++j) {
    out[j] = d * static_cast<float>(kLevels[b[2 + j] & 0xf]);
    out[j + kHalf] = d * static_cast<float>(kLevels[b[2 + j] >> 4]);
  }
}

void dequantize_f32(const std::uint8_t* b, float* out) { std::memcpy(out, b, sizeof *out); }
void dequantize_f16(const std::uint8_t* b, float* out) { *out = load_f16(b); }
void dequantize_bf16(const std::uint8_t* b, float* out) {
  *out = bf16_to_f32(load<std::uint16_t>(b));
}

template <void (*kBlock)(const std::uint8_t*, float*)>
void each_block(TensorTypeInfo info, const std::uint8_t* blocks, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; i += info.block_size) {
    kBlock(blocks, out + i);
    blocks += info.block_bytes;
  }
}

}  // namespace

void dequantize(TensorType type, const std::byte* blocks, std::size_t n, float* out) {
  const TensorTypeInfo info = tensor_type_info(type);
  QUIRE_CHECK(n % info.block_size == 0);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(blocks);
  switch (type) {
    case TensorType::kF32:
      return each_block<dequantize_f32>(info, bytes, n, out);
    case TensorType::kF16:
      return each_block<dequantize_f16>(info, bytes, n, out);
    case TensorType::kBF16:
      return each_block<dequantize_bf16>(info, bytes, n, out);
    case TensorType::kQ4_0:
      return each_block<dequantize_q4_0>(info, bytes, n, out);
    case TensorType::kQ4_1:
      return each_block<dequantize_q4_1>(info, bytes, n, out);
    case TensorType::kQ5_0:
      return each_block<dequantize_q5_0>(info, bytes, n, out);
    case TensorType::kQ5_1:
      return each_block<dequantize_q5_1>(info, bytes, n, out);
    case TensorType::kQ8_0:
      return each_block<dequantize_q8_0>(info, bytes, n, out);
    case TensorType::kQ2_K:
      return each_block<dequantize_q2_k>(info, bytes, n, out);
    case TensorType::kQ3_K:
      return each_block<dequantize_q3_k>(info, bytes, n, out);
    case TensorType::kQ4_K:
      return each_block<dequantize_q4_k>(info, bytes, n, out);
    case TensorType::kQ5_K:
      return each_block<dequantize_q5_k>(info, bytes, n, out);
    case TensorType::kQ6_K:
      return each_block<dequantize_q6_k>(info, bytes, n, out);
    case TensorType::kIQ4_NL:
      return each_block<dequantize_iq4_nl>(info, bytes, n, out);
  }
  check_failed("a TensorType enumerator", __FILE__, __LINE__);
}

}  // namespace quire
