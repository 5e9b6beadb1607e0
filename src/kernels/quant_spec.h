#pragma once
// What the quantized panel formats look like: shared by the packer that writes them and the kernels
// that read them. docs/kernels.md draws the layout.

#include <cstddef>
#include <cstdint>

#include "kernels/packed_matrix.h"

namespace quire {

inline constexpr std::size_t kQuantBlock = 32;  // columns per block
inline constexpr std::size_t kLineBytes = 64;   // 16 rows x 4 columns of bytes
inline constexpr std::size_t kSuperBlocks = 8;  // blocks that share d and dmin in the K formats

/// A panel is a sequence of chunks: the scales of a few blocks, then their lines, all in multiples
/// of 64 bytes. One stream of memory, every line in a cache line of its own.
struct QuantSpec {
  int bits = 0;           // stored per weight: 2, 3, 4, 5, 6 or 8
  int zero_log2 = -1;     // weights are (q - 2^zero_log2) * scale; -1: no zero point
  bool has_min = false;   // and a minimum is added (plain formats) or subtracted (K formats)
  bool is_super = false;  // scale = d * sc: f16 d per 256 columns, int8 sc per group
  int groups = 1;         // scales per block: 1 (32 columns each) or 2 (16 columns)

  constexpr std::size_t line_bytes() const { return static_cast<std::size_t>(bits) * kLineBytes; }
  /// f16 d[16] and, with a minimum, f16 m[16]: once per block, in K formats once per chunk.
  constexpr std::size_t head_bytes() const { return 2 * kPanelRows * (has_min ? 2u : 1u); }
  /// K formats, per block: int8 sc[groups][16] and, with a minimum, int8 m[groups][16].
  constexpr std::size_t sub_bytes() const {
    return is_super ? static_cast<std::size_t>(groups) * kPanelRows * (has_min ? 2u : 1u) : 0;
  }
  constexpr std::size_t chunk_blocks() const {
    return is_super ? kSuperBlocks : kLineBytes / head_bytes();
  }
  constexpr std::size_t meta_bytes() const {
    const std::size_t bytes = is_super ? head_bytes() + chunk_blocks() * sub_bytes() : kLineBytes;
    return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  }
  constexpr std::size_t chunk_bytes() const { return meta_bytes() + chunk_blocks() * line_bytes(); }
};

constexpr QuantSpec quant_spec(PackedFormat format) {
  switch (format) {
    case PackedFormat::kF32:
    case PackedFormat::kF16:
    case PackedFormat::kBF16:
      break;
    case PackedFormat::kQ8:
      return {.bits = 8, .zero_log2 = 7};
    case PackedFormat::kQ4:
      return {.bits = 4, .zero_log2 = 3};
    case PackedFormat::kQ4M:
      return {.bits = 4, .has_min = true};
    case PackedFormat::kQ5:
      return {.bits = 5, .zero_log2 = 4};
    case PackedFormat::kQ5M:
      return {.bits = 5, .has_min = true};
    case PackedFormat::kK2:
      return {.bits = 2, .has_min = true, .is_super = true, .groups = 2};
    case PackedFormat::kK3:
      return {.bits = 3, .zero_log2 = 2, .is_super = true, .groups = 2};
    case PackedFormat::kK4:
      return {.bits = 4, .has_min = true, .is_super = true};
    case PackedFormat::kK5:
      return {.bits = 5, .has_min = true, .is_super = true};
    case PackedFormat::kK6:
      return {.bits = 6, .zero_log2 = 5, .is_super = true, .groups = 2};
  }
  return {};
}

}  // namespace quire
