#pragma once
// Products of quantized panels with int8 activations. One block is 32 columns of 16 rows: integers
// are summed exactly, then scaled into the f32 sums in block order, so a result depends on neither
// the tier nor the tile a token falls in.

#include "kernels/quant_spec.h"
#include "kernels/simd_math_inl.h"

namespace quire {
namespace {

/// Line kLine (columns 4 kLine .. 4 kLine + 3) of a block as bytes, one stored weight each.
template <int kBits, int kLine>
QUIRE_INLINE Line unpack_line(const std::byte* block) {
  if constexpr (kBits == 8) {
    return load_line(block + kLineBytes * kLine);
  } else if constexpr (kBits == 2) {  // plane i holds lines 4i .. 4i + 3, 2 bits each
    return bits_at<2 * (kLine % 4), 0x03>(load_line(block + kLineBytes * (kLine / 4)));
  } else if constexpr (kBits == 3) {  // and a plane with the third bit of all 8 lines
    return unpack_line<2, kLine>(block) |
           bits_at<kLine - 2, 0x04>(load_line(block + 2 * kLineBytes));
  } else if constexpr (kBits == 4) {  // nibbles: lines i and i + 4 together
    return bits_at<kLine / 4 * 4, 0x0f>(load_line(block + kLineBytes * (kLine % 4)));
  } else if constexpr (kBits == 5) {
    return unpack_line<4, kLine>(block) |
           bits_at<kLine - 4, 0x10>(load_line(block + 4 * kLineBytes));
  } else {
    static_assert(kBits == 6);
    return unpack_line<4, kLine>(block) |
           bits_at<2 * (kLine % 4) - 4, 0x30>(load_line(block + (4 + kLine / 4) * kLineBytes));
  }
}

/// Where the int8 activations of a tile of tokens lie; `block` advances over the columns.
struct QuantTile {
  const std::int8_t* q;
  const std::int8_t* fine;
  const float* scale;
  const std::int32_t* steps;
  const std::int32_t* sum;
  std::size_t n_cols;

  QUIRE_INLINE std::size_t column(int t, std::size_t block) const {
    return static_cast<std::size_t>(t) * n_cols + block * kQuantBlock;
  }
  QUIRE_INLINE std::size_t index(int t, std::size_t block) const {
    return static_cast<std::size_t>(t) * (n_cols / kQuantBlock) + block;
  }
};

/// acc[t] += two lines of the block times their columns of one int8 term, for every token.
template <int kBits, int kFirst, int kSecond, int kTokens>
QUIRE_INLINE void add_lines(const std::byte* block, const QuantTile& x, const std::int8_t* term,
                            std::size_t b, I32x16 (&acc)[kTokens]) {
  const Line w0 = unpack_line<kBits, kFirst>(block);
  const Line w1 = unpack_line<kBits, kSecond>(block);
#pragma GCC unroll 16
  for (int t = 0; t < kTokens; ++t) {
    const std::int8_t* columns = term + x.column(t, b);
    acc[t] = dot2<kBits>(acc[t], w0, columns + 4 * kFirst, w1, columns + 4 * kSecond);
  }
}

/// acc[t] += all lines of one group times one int8 term.
template <int kBits, int kGroups, int kGroup, int kTokens>
QUIRE_INLINE void add_term(const std::byte* block, const QuantTile& x, const std::int8_t* term,
                           std::size_t b, I32x16 (&acc)[kTokens]) {
  if constexpr (kGroups == 1) {
    add_lines<kBits, 0, 4>(block, x, term, b, acc);
    add_lines<kBits, 1, 5>(block, x, term, b, acc);
    add_lines<kBits, 2, 6>(block, x, term, b, acc);
    add_lines<kBits, 3, 7>(block, x, term, b, acc);
  } else {
    add_lines<kBits, 4 * kGroup, 4 * kGroup + 1>(block, x, term, b, acc);
    add_lines<kBits, 4 * kGroup + 2, 4 * kGroup + 3>(block, x, term, b, acc);
  }
}

template <PackedFormat kFormat>
constexpr bool needs_zero_point() {
  constexpr QuantSpec spec = quant_spec(kFormat);
  return spec.zero_log2 >= 0 && (spec.bits != 8 || kDotIsBiased8);
}

/// Whether any token of the tile has a second term in this block. If none has, it is all zeros, and
/// leaving it out changes nothing.
template <int kTokens>
QUIRE_INLINE bool is_loud(const QuantTile& x, std::size_t b) {
  std::int32_t bits = 0;
#pragma GCC unroll 16
  for (int t = 0; t < kTokens; ++t) bits |= x.steps[x.index(t, b)];
  return bits != 1;
}

/// Sum of steps * q + fine over the columns of one group.
template <int kGroups, int kGroup>
QUIRE_INLINE std::int32_t group_sum(const QuantTile& x, int t, std::size_t b, bool loud) {
  if constexpr (kGroups == 1) return x.sum[x.index(t, b)];
  const std::size_t column = x.column(t, b) + 16 * kGroup;
  const std::int32_t sum = sum16(x.q + column);
  return loud ? sum * x.steps[x.index(t, b)] + sum16(x.fine + column) : sum;
}

/// One group of a block (all 32 columns, or 16 of them): its integer sums scaled into y.
template <PackedFormat kFormat, int kGroup, int kTokens>
QUIRE_INLINE void add_group(const std::byte* block, const QuantTile& x, std::size_t b, bool loud,
                            F32x16 scale, F32x16 minimum, F32x16 (&y)[kTokens]) {
  constexpr QuantSpec spec = quant_spec(kFormat);
  std::int32_t sums[kTokens] = {};
  I32x16 offset[kTokens];
#pragma GCC unroll 16
  for (int t = 0; t < kTokens; ++t) {
    offset[t] = splat_int(0);
    if constexpr (needs_zero_point<kFormat>() || spec.has_min) {
      sums[t] = group_sum<spec.groups, kGroup>(x, t, b, loud);
    }
    if constexpr (needs_zero_point<kFormat>()) {
      offset[t] = splat_int(-(sums[t] * (1 << spec.zero_log2)));
    }
  }
  I32x16 acc[kTokens];
  if (loud) {
    for (int t = 0; t < kTokens; ++t) acc[t] = splat_int(0);
    add_term<spec.bits, spec.groups, kGroup>(block, x, x.q, b, acc);
#pragma GCC unroll 16
    for (int t = 0; t < kTokens; ++t) {
      acc[t] = acc[t] * splat_int(x.steps[x.index(t, b)]) + offset[t];
    }
    add_term<spec.bits, spec.groups, kGroup>(block, x, x.fine, b, acc);
  } else {
    for (int t = 0; t < kTokens; ++t) acc[t] = offset[t];
    add_term<spec.bits, spec.groups, kGroup>(block, x, x.q, b, acc);
  }
#pragma GCC unroll 16
  for (int t = 0; t < kTokens; ++t) {
    const float x_scale = x.scale[x.index(t, b)];
    y[t] = fma(to_float(acc[t]), scale * splat(x_scale), y[t]);
    if constexpr (spec.has_min) {
      y[t] = fma(minimum, splat(x_scale * static_cast<float>(sums[t])), y[t]);
    }
  }
}

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

/// Scale and minimum of one group; K formats multiply the shared ones by small integers.
template <PackedFormat kFormat, int kGroup>
QUIRE_INLINE MetaHead group_scale(const MetaHead& head, const std::byte* sub) {
  constexpr QuantSpec spec = quant_spec(kFormat);
  if constexpr (!spec.is_super) return head;
  const auto* integers = reinterpret_cast<const std::int8_t*>(sub);
  MetaHead out = {head.d * load_s8(integers + 16 * kGroup), head.m};
  if constexpr (spec.has_min) {
    out.m = splat(0) - head.m * load_s8(integers + 16 * (spec.groups + kGroup));
  }
  return out;
}

/// kTokens tokens times one panel; y[t] are the 16 rows of token t.
template <PackedFormat kFormat, int kTokens>
QUIRE_INLINE void quant_tile(const std::byte* panel, const QuantTile& x, F32x16 (&y)[kTokens]) {
  constexpr QuantSpec spec = quant_spec(kFormat);
  constexpr std::size_t kPrefetch = 2048;  // bytes ahead; a decode step is one long stream
  const std::size_t n_blocks = x.n_cols / kQuantBlock;
  for (int t = 0; t < kTokens; ++t) y[t] = splat(0);
  for (std::size_t first = 0; first < n_blocks; first += spec.chunk_blocks()) {
    const std::byte* lines = panel + spec.meta_bytes();
    const std::byte* sub = panel + spec.head_bytes();
    MetaHead head = load_head<kFormat>(panel);
    if constexpr (kTokens == 1) __builtin_prefetch(panel + kPrefetch);
    for (std::size_t i = 0; i < spec.chunk_blocks() && first + i < n_blocks; ++i) {
      if constexpr (kTokens == 1) {
        for (std::size_t line = 0; line < spec.line_bytes(); line += kLineBytes) {
          __builtin_prefetch(lines + kPrefetch + line);
        }
      }
      if (!spec.is_super && i > 0) head = load_head<kFormat>(panel + i * spec.head_bytes());
      const MetaHead s0 = group_scale<kFormat, 0>(head, sub);
      const bool loud = is_loud<kTokens>(x, first + i);
      add_group<kFormat, 0>(lines, x, first + i, loud, s0.d, s0.m, y);
      if constexpr (spec.groups == 2) {
        const MetaHead s1 = group_scale<kFormat, 1>(head, sub);
        add_group<kFormat, 1>(lines, x, first + i, loud, s1.d, s1.m, y);
      }
      lines += spec.line_bytes();
      sub += spec.sub_bytes();
    }
    panel += spec.chunk_bytes();
  }
}

}  // namespace
}  // namespace quire
