#include "kernels/weight_blocks.h"

#include <cstring>

#include "base/check.h"

namespace quire {
namespace {

using Bytes = const std::uint8_t*;

std::uint16_t read_u16(Bytes p) { return static_cast<std::uint16_t>(p[0] | (p[1] << 8)); }

/// 16 bytes, elements 0..15 in the low nibbles and 16..31 in the high ones.
void read_nibbles(Bytes p, std::uint8_t* q) {
  for (std::size_t i = 0; i < 16; ++i) {
    q[i] = p[i] & 0x0f;
    q[i + 16] = p[i] >> 4;
  }
}

/// Bit i of a little-endian 32-bit word is the fifth bit of element i.
void read_fifth_bits(Bytes p, std::uint8_t* q) {
  for (std::size_t i = 0; i < 32; ++i) {
    const int bit = (p[i / 8] >> (i % 8)) & 1;
    q[i] = static_cast<std::uint8_t>(q[i] | (bit << 4));
  }
}

void read_q8_0(Bytes p, WeightBlock& out) {
  out.d = read_u16(p);
  for (std::size_t i = 0; i < 32; ++i) out.q[i] = p[2 + i] ^ 0x80;  // signed, plus 128
}

/// Sixteen non-uniform levels, expanded to 8 bits.
void read_iq4_nl(Bytes p, WeightBlock& out) {
  constexpr std::int8_t kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113};
  out.d = read_u16(p);
  read_nibbles(p + 2, out.q);
  for (std::size_t i = 0; i < 32; ++i) {
    out.q[i] = static_cast<std::uint8_t>(kLevels[out.q[i]] + 128);
  }
}

/// Q4_K and Q5_K: eight 6-bit scales and minima in 12 bytes.
void read_k_scales(Bytes s, WeightBlock& out) {
  for (std::size_t j = 0; j < 4; ++j) {
    out.sub_scale[j] = static_cast<std::int8_t>(s[j] & 0x3f);
    out.sub_min[j] = static_cast<std::int8_t>(s[j + 4] & 0x3f);
    out.sub_scale[j + 4] = static_cast<std::int8_t>((s[j + 8] & 0x0f) | ((s[j] >> 6) << 4));
    out.sub_min[j + 4] = static_cast<std::int8_t>((s[j + 8] >> 4) | ((s[j + 4] >> 6) << 4));
  }
}

/// d, dmin, scales[12], (Q5_K: qh[32],) qs[128]; each 32 bytes of qs hold elements 64c .. 64c + 31
/// in the low nibbles and the next 32 in the high ones.
void read_q4_k(Bytes p, bool five_bits, WeightBlock& out) {
  out.d = read_u16(p);
  out.m = read_u16(p + 2);
  read_k_scales(p + 4, out);
  Bytes qh = p + 16;
  Bytes qs = five_bits ? qh + 32 : qh;
  for (std::size_t e = 0; e < 256; ++e) {
    const std::size_t group = e / 32;
    const int byte = qs[group / 2 * 32 + e % 32];
    int q = group % 2 == 0 ? byte & 0x0f : byte >> 4;
    if (five_bits) q |= ((qh[e % 32] >> group) & 1) << 4;
    out.q[e] = static_cast<std::uint8_t>(q);
  }
}

/// Two bits of element e in Q2_K and Q3_K: 32 bytes hold 128 elements, 32 per bit pair.
int two_bits(Bytes qs, std::size_t e) {
  return (qs[e / 128 * 32 + e % 32] >> (2 * (e % 128 / 32))) & 3;
}

/// scales[16] (low nibble scale, high nibble minimum), qs[64], d, dmin.
void read_q2_k(Bytes p, WeightBlock& out) {
  for (std::size_t g = 0; g < 16; ++g) {
    out.sub_scale[g] = static_cast<std::int8_t>(p[g] & 0x0f);
    out.sub_min[g] = static_cast<std::int8_t>(p[g] >> 4);
  }
  for (std::size_t e = 0; e < 256; ++e) out.q[e] = static_cast<std::uint8_t>(two_bits(p + 16, e));
  out.d = read_u16(p + 80);
  out.m = read_u16(p + 82);
}

/// hmask[32], qs[64], scales[12] (6 bits, offset 32), d.
void read_q3_k(Bytes p, WeightBlock& out) {
  Bytes scales = p + 96;
  for (std::size_t g = 0; g < 16; ++g) {
    const int low = g < 8 ? scales[g] & 0x0f : scales[g - 8] >> 4;
    const int high = (scales[8 + g % 4] >> (2 * (g / 4))) & 3;
    out.sub_scale[g] = static_cast<std::int8_t>((low | (high << 4)) - 32);
  }
  for (std::size_t e = 0; e < 256; ++e) {
    const int third = (p[e % 32] >> (e / 32)) & 1;
    out.q[e] = static_cast<std::uint8_t>(two_bits(p + 32, e) | (third << 2));
  }
  out.d = read_u16(p + 108);
}

/// ql[128], qh[64], int8 scales[16], d; halves of 128 elements, each four runs of 32.
void read_q6_k(Bytes p, WeightBlock& out) {
  for (std::size_t e = 0; e < 256; ++e) {
    const std::size_t half = e / 128;
    const std::size_t run = e % 128 / 32;
    const int low_byte = p[half * 64 + run % 2 * 32 + e % 32];
    const int low = run < 2 ? low_byte & 0x0f : low_byte >> 4;
    const int high = (p[128 + half * 32 + e % 32] >> (2 * run)) & 3;
    out.q[e] = static_cast<std::uint8_t>(low | (high << 4));
  }
  std::memcpy(out.sub_scale, p + 192, 16);
  out.d = read_u16(p + 208);
}

}  // namespace

void read_weight_block(TensorType type, const std::byte* bytes, WeightBlock& out) {
  const auto* p = reinterpret_cast<const std::uint8_t*>(bytes);
  switch (type) {
    case TensorType::kQ8_0:
      return read_q8_0(p, out);
    case TensorType::kIQ4_NL:
      return read_iq4_nl(p, out);
    case TensorType::kQ4_0:
    case TensorType::kQ5_0: {
      const bool five_bits = type == TensorType::kQ5_0;
      out.d = read_u16(p);
      read_nibbles(p + (five_bits ? 6 : 2), out.q);
      if (five_bits) read_fifth_bits(p + 2, out.q);
      return;
    }
    case TensorType::kQ4_1:
    case TensorType::kQ5_1: {
      const bool five_bits = type == TensorType::kQ5_1;
      out.d = read_u16(p);
      out.m = read_u16(p + 2);
      read_nibbles(p + (five_bits ? 8 : 4), out.q);
      if (five_bits) read_fifth_bits(p + 4, out.q);
      return;
    }
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      return read_q4_k(p, type == TensorType::kQ5_K, out);
    case TensorType::kQ2_K:
      return read_q2_k(p, out);
    case TensorType::kQ3_K:
      return read_q3_k(p, out);
    case TensorType::kQ6_K:
      return read_q6_k(p, out);
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
      break;
  }
  QUIRE_CHECK(false && "not a quantized type");
}

}  // namespace quire
