#pragma once
// Quantized panels as they lie in memory: read once for a few tokens, or expanded once for many.

#include "kernels/linear_quant_inl.h"

namespace quire {
namespace {

/// f16 d[16] and m[16] at the head of an entry of the scale section.
struct MetaHead {
  F32x16 d, m;
};

template <PackedFormat kFormat>
QUIRE_INLINE MetaHead load_head(const std::byte* meta) {
  const auto* halves = reinterpret_cast<const std::uint16_t*>(meta);
  MetaHead head = {load_f16(halves), splat(0)};
  if constexpr (quant_spec(kFormat).has_min) head.m = load_f16(halves + kPanelRows);
  return head;
}

/// A block of a panel.
template <PackedFormat kFormat>
struct PackedBlock {
  static constexpr QuantSpec kSpec = quant_spec(kFormat);
  const std::byte* lines;
  const std::int8_t* sub;  // K formats: integers that multiply the shared scale and minimum
  MetaHead head;

  template <int kLine>
  QUIRE_INLINE Line line() const {
    return unpack_line<kSpec.bits, kLine>(lines);
  }
  template <int kGroup>
  QUIRE_INLINE F32x16 scale() const {
    if constexpr (!kSpec.is_super) return head.d;
    return head.d * load_s8(sub + 16 * kGroup);
  }
  template <int kGroup>
  QUIRE_INLINE F32x16 minimum() const {
    if constexpr (!kSpec.is_super) return head.m;
    return splat(0) - head.m * load_s8(sub + 16 * (kSpec.groups + kGroup));
  }
};

/// Calls visit(block, b) for blocks [from, to) of a panel; `from` begins a chunk. Each block asks
/// for what lies `ahead` bytes behind it, unless that is 0.
template <PackedFormat kFormat, typename Visit>
QUIRE_INLINE void for_each_block(const std::byte* panel, std::size_t from, std::size_t to,
                                 std::size_t ahead, Visit visit) {
  constexpr QuantSpec spec = quant_spec(kFormat);
  panel += from / spec.chunk_blocks() * spec.chunk_bytes();
  for (std::size_t first = from; first < to; first += spec.chunk_blocks()) {
    PackedBlock<kFormat> block = {panel + spec.meta_bytes(),
                                  reinterpret_cast<const std::int8_t*>(panel + spec.head_bytes()),
                                  load_head<kFormat>(panel)};
    if (ahead != 0) __builtin_prefetch(panel + ahead);
    for (std::size_t i = 0; i < spec.chunk_blocks() && first + i < to; ++i) {
      if (ahead != 0) {
        for (std::size_t line = 0; line < spec.line_bytes(); line += kLineBytes) {
          __builtin_prefetch(block.lines + ahead + line);
        }
      }
      if (!spec.is_super && i > 0) block.head = load_head<kFormat>(panel + i * spec.head_bytes());
      visit(block, first + i);
      block.lines += spec.line_bytes();
      block.sub += spec.sub_bytes();
    }
    panel += spec.chunk_bytes();
  }
}

/// Blocks that are expanded at a time: with the activations of a tile they stay in the first cache.
constexpr std::size_t kExpandedBlocks = 32;

static_assert(kExpandedBlocks % kSuperBlocks == 0);  // whole chunks of every format

/// A block with a byte per weight and its scales in f32.
template <PackedFormat kFormat>
struct ExpandedBlock {
  static constexpr QuantSpec kSpec = quant_spec(kFormat);
  static constexpr std::size_t kScales = 8 * kLineBytes;
  static constexpr std::size_t kScaleBytes = kPanelRows * sizeof(float);
  static constexpr std::size_t kMinima = kScales + kSpec.groups * kScaleBytes;
  static constexpr std::size_t kBytes = kMinima + (kSpec.has_min ? kMinima - kScales : 0);
  const std::byte* data;

  template <int kLine>
  QUIRE_INLINE Line line() const {
    return load_line(data + kLine * kLineBytes);
  }
  template <int kGroup>
  QUIRE_INLINE F32x16 scale() const {
    return load(reinterpret_cast<const float*>(data + kScales + kGroup * kScaleBytes));
  }
  template <int kGroup>
  QUIRE_INLINE F32x16 minimum() const {
    return load(reinterpret_cast<const float*>(data + kMinima + kGroup * kScaleBytes));
  }
};

template <PackedFormat kFormat, int kGroup>
QUIRE_INLINE void expand_scales(const PackedBlock<kFormat>& block, std::byte* out) {
  using Expanded = ExpandedBlock<kFormat>;
  std::byte* at = out + kGroup * Expanded::kScaleBytes;
  store(reinterpret_cast<float*>(at + Expanded::kScales), block.template scale<kGroup>());
  if constexpr (Expanded::kSpec.has_min) {
    store(reinterpret_cast<float*>(at + Expanded::kMinima), block.template minimum<kGroup>());
  }
}

template <PackedFormat kFormat>
[[gnu::noinline]] void expand_blocks(const std::byte* panel, std::size_t from, std::size_t to,
                                     std::byte* out) {
  for_each_block<kFormat>(panel, from, to, 0, [&](const PackedBlock<kFormat>& block, std::size_t) {
    store_line(out, block.template line<0>());
    store_line(out + kLineBytes, block.template line<1>());
    store_line(out + 2 * kLineBytes, block.template line<2>());
    store_line(out + 3 * kLineBytes, block.template line<3>());
    store_line(out + 4 * kLineBytes, block.template line<4>());
    store_line(out + 5 * kLineBytes, block.template line<5>());
    store_line(out + 6 * kLineBytes, block.template line<6>());
    store_line(out + 7 * kLineBytes, block.template line<7>());
    expand_scales<kFormat, 0>(block, out);
    if constexpr (quant_spec(kFormat).groups == 2) expand_scales<kFormat, 1>(block, out);
    out += ExpandedBlock<kFormat>::kBytes;
  });
}

}  // namespace
}  // namespace quire
