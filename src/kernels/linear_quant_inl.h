#pragma once
// Products of blocks of quantized panels with int8 activations. One block is 32 columns of 16 rows:
// integers are summed exactly, then scaled into the f32 sums in block order, so a result depends on
// neither the tier nor the tile a token falls in.

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

/// The int8 activations of a few tokens of one tile.
struct QuantTile {
  Int8Activations x;  // of the first of them
  std::size_t n_blocks;

  QUIRE_INLINE QuantTile(const Int8Activations& all, std::size_t token)
      : x(all), n_blocks(all.n_blocks) {
    const std::size_t at = all.block(token, 0);
    x.q += at * kActivationBlock;
    x.coarse += at * kActivationBlock;
    x.lines += at;
    x.scale += at;
    x.sum += at;
    x.half_sum += at;
    x.scaled_sum += at;
  }
  QUIRE_INLINE static std::size_t index(int t, std::size_t b) {
    return b * kTokenTile + static_cast<std::size_t>(t);
  }
  /// The outlier lines of any of the tokens. The coarse term of the others is zero there.
  template <int kTokens>
  QUIRE_INLINE unsigned lines(std::size_t b) const {
    static_assert(kTokens <= static_cast<int>(kTokenTile));
    std::uint64_t all = 0;
    __builtin_memcpy(&all, x.lines + b * kTokenTile, kTokens);
    if constexpr (kTokens > 4) all |= all >> 32;
    if constexpr (kTokens > 2) all |= all >> 16;
    if constexpr (kTokens > 1) all |= all >> 8;
    return static_cast<unsigned>(all & 0xff);
  }
};

/// acc[t] += two lines of the block times their columns of q, for every token.
template <int kFirst, int kSecond, typename Block, int kTokens>
QUIRE_INLINE void add_lines(const Block& block, const QuantTile& x, std::size_t b,
                            I32x16 (&acc)[kTokens]) {
  const Line w0 = block.template line<kFirst>();
  const Line w1 = block.template line<kSecond>();
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const std::int8_t* q = x.x.q + QuantTile::index(t, b) * kActivationBlock;
    acc[t] = dot2<Block::kSpec.bits>(acc[t], w0, q + 4 * kFirst, w1, q + 4 * kSecond);
  }
}

/// acc[t] += line kLine times its columns of the coarse term, where any token has one.
template <int kLine, typename Block, int kTokens>
QUIRE_INLINE void add_coarse_line(const Block& block, const QuantTile& x, std::size_t b,
                                  unsigned lines, I32x16 (&acc)[kTokens]) {
  if ((lines >> kLine & 1) == 0) return;
  const Line w = block.template line<kLine>();
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const std::int8_t* coarse = x.x.coarse + QuantTile::index(t, b) * kActivationBlock;
    acc[t] = dot<Block::kSpec.bits>(acc[t], w, coarse + 4 * kLine);
  }
}

constexpr bool needs_zero_point(const QuantSpec& spec) {
  return spec.zero_log2 >= 0 && (spec.bits != 8 || kDotIsBiased8);
}

/// Sum of the integers of one group of a token's block.
template <int kGroups, int kGroup>
QUIRE_INLINE std::int32_t group_sum(const QuantTile& x, int t, std::size_t b) {
  const std::size_t at = QuantTile::index(t, b);
  if constexpr (kGroups == 1) return x.x.sum[at];
  return kGroup == 0 ? x.x.half_sum[at] : x.x.sum[at] - x.x.half_sum[at];
}

/// One group of a block (all 32 columns, or 16 of them): its integer sums scaled into y.
template <int kGroup, typename Block, int kTokens>
QUIRE_INLINE void add_group(const Block& block, const QuantTile& x, std::size_t b, unsigned lines,
                            F32x16 (&y)[kTokens]) {
  constexpr QuantSpec spec = Block::kSpec;
  constexpr int kLines = 8 / spec.groups;
  constexpr int kFrom = kLines * kGroup;
  I32x16 acc[kTokens];
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) acc[t] = splat_int(0);
  if ((lines >> kFrom & ((1u << kLines) - 1u)) != 0) {
    add_coarse_line<kFrom + 0>(block, x, b, lines, acc);
    add_coarse_line<kFrom + 1>(block, x, b, lines, acc);
    add_coarse_line<kFrom + 2>(block, x, b, lines, acc);
    add_coarse_line<kFrom + 3>(block, x, b, lines, acc);
    if constexpr (kLines == 8) {
      add_coarse_line<4>(block, x, b, lines, acc);
      add_coarse_line<5>(block, x, b, lines, acc);
      add_coarse_line<6>(block, x, b, lines, acc);
      add_coarse_line<7>(block, x, b, lines, acc);
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) acc[t] = acc[t] * splat_int(kCoarseSteps);
  }
  if constexpr (needs_zero_point(spec)) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const std::int32_t sum = group_sum<spec.groups, kGroup>(x, t, b);
      acc[t] = acc[t] + splat_int(-(sum * (1 << spec.zero_log2)));
    }
  }
  if constexpr (kLines == 8) {  // the order in which nibbles lie together
    add_lines<0, 4>(block, x, b, acc);
    add_lines<1, 5>(block, x, b, acc);
    add_lines<2, 6>(block, x, b, acc);
    add_lines<3, 7>(block, x, b, acc);
  } else {
    add_lines<kFrom, kFrom + 1>(block, x, b, acc);
    add_lines<kFrom + 2, kFrom + 3>(block, x, b, acc);
  }
  const F32x16 scale = block.template scale<kGroup>();
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t) {
    const std::size_t at = QuantTile::index(t, b);
    y[t] = fma(to_float(acc[t]), scale * splat(x.x.scale[at]), y[t]);
  }
  if constexpr (spec.has_min) {
    const F32x16 minimum = block.template minimum<kGroup>();
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const std::size_t at = QuantTile::index(t, b);
      const float sum = spec.groups == 1
                            ? x.x.scaled_sum[at]
                            : x.x.scale[at] * static_cast<float>(group_sum<2, kGroup>(x, t, b));
      y[t] = fma(minimum, splat(sum), y[t]);
    }
  }
}

template <typename Block, int kTokens>
QUIRE_INLINE void add_block(const Block& block, const QuantTile& x, std::size_t b,
                            F32x16 (&y)[kTokens]) {
  const unsigned lines = x.lines<kTokens>(b);
  add_group<0>(block, x, b, lines, y);
  if constexpr (Block::kSpec.groups == 2) add_group<1>(block, x, b, lines, y);
}

}  // namespace
}  // namespace quire
