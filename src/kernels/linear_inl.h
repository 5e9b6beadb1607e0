#pragma once
// y = W x over 16-row panels: the loops over panels and token tiles, and the float formats.

#include <type_traits>

#include "kernels/kernels.h"
#include "kernels/linear_packed_inl.h"

namespace quire {
namespace {

/// kTokens rows of f32 activations times one [n_cols][16] panel. Four sums per output, one for each
/// column modulo 4, added as (0 + 1) + (2 + 3): short chains, small rounding, one order.
template <typename Source, int kTokens>
QUIRE_INLINE void float_tile(const typename Source::Type* panel, std::size_t n_cols, const float* x,
                             std::size_t stride, F32x16 (&y)[kTokens]) {
  F32x16 acc[kTokens][4];
  for (int t = 0; t < kTokens; ++t) {
    for (int c = 0; c < 4; ++c) acc[t][c] = splat(0);
  }
  std::size_t k = 0;
  for (; k + 4 <= n_cols; k += 4) {
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const std::size_t column = k + static_cast<std::size_t>(c);
      const F32x16 w = Source::read(panel + column * kPanelRows);
#pragma GCC unroll 16
      for (int t = 0; t < kTokens; ++t) {
        acc[t][c] = fma(w, splat(x[static_cast<std::size_t>(t) * stride + column]), acc[t][c]);
      }
    }
  }
#pragma GCC unroll 3
  for (int c = 0; c < 3; ++c) {
    const std::size_t column = k + static_cast<std::size_t>(c);
    if (column >= n_cols) break;
    const F32x16 w = Source::read(panel + column * kPanelRows);
    for (int t = 0; t < kTokens; ++t) {
      acc[t][c] = fma(w, splat(x[static_cast<std::size_t>(t) * stride + column]), acc[t][c]);
    }
  }
  for (int t = 0; t < kTokens; ++t) y[t] = (acc[t][0] + acc[t][1]) + (acc[t][2] + acc[t][3]);
}

struct LinearJob {
  const std::byte* panel;
  std::size_t n_cols;
  const ActivationView* x;
  std::size_t rows;  // of this panel that exist
  float* y;          // of token 0 and the panel's first row
  std::size_t y_stride;
  std::size_t ahead;  // how far behind itself a block asks for more, if at all
};

template <int kTokens>
QUIRE_INLINE void store_outputs(const LinearJob& job, std::size_t token,
                                const F32x16 (&y)[kTokens]) {
  float* out = job.y + token * job.y_stride;
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t, out += job.y_stride) {
    if (job.rows == kPanelRows) {
      store(out, y[t]);
    } else {
      store_first(out, y[t], job.rows);
    }
  }
}

template <int kTokens>
QUIRE_INLINE void load_outputs(const LinearJob& job, std::size_t token, F32x16 (&y)[kTokens]) {
  const float* out = job.y + token * job.y_stride;
#pragma GCC unroll 8
  for (int t = 0; t < kTokens; ++t, out += job.y_stride) {
    y[t] = job.rows == kPanelRows ? load(out) : load_first(out, job.rows);
  }
}

constexpr std::size_t kStreamAhead = 2048;  // bytes

template <PackedFormat kFormat, int kTokens>
[[gnu::noinline]] void run_tile(const LinearJob& job, std::size_t token) {
  F32x16 y[kTokens];
  const ActivationView& x = *job.x;
  if constexpr (kFormat >= PackedFormat::kQ8) {
    const QuantTile tile(x.int8, token);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) y[t] = splat(0);
    // One token makes the whole matrix one long stream.
    const std::size_t ahead = kTokens == 1 ? kStreamAhead : job.ahead;
    for_each_block<kFormat>(
        job.panel, 0, tile.n_blocks, ahead,
        [&](const auto& block, std::size_t b) { add_block(block, tile, b, y); });
  } else {
    const float* rows = x.f32 + token * x.f32_stride;
    if constexpr (kFormat == PackedFormat::kF32) {
      const auto* panel = reinterpret_cast<const float*>(job.panel);
      float_tile<SourceF32>(panel, job.n_cols, rows, x.f32_stride, y);
    } else {
      using Source = std::conditional_t<kFormat == PackedFormat::kF16, SourceF16, SourceBF16>;
      const auto* panel = reinterpret_cast<const std::uint16_t*>(job.panel);
      float_tile<Source>(panel, job.n_cols, rows, x.f32_stride, y);
    }
  }
  store_outputs(job, token, y);
}

/// Blocks [from, to), which lie expanded at `blocks`; what came before them is in the output.
template <PackedFormat kFormat, int kTokens>
[[gnu::noinline]] void run_expanded_tile(const LinearJob& job, std::size_t token,
                                         const std::byte* blocks, std::size_t from,
                                         std::size_t to) {
  const QuantTile tile(job.x->int8, token);
  F32x16 y[kTokens];
  if (from == 0) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) y[t] = splat(0);
  } else {
    load_outputs(job, token, y);
  }
  for (std::size_t b = from; b < to; ++b, blocks += ExpandedBlock<kFormat>::kBytes) {
    add_block(ExpandedBlock<kFormat>{blocks}, tile, b, y);
  }
  store_outputs(job, token, y);
}

/// Cuts tokens into the largest pieces that fit, none across the border of an int8 tile, and calls
/// run(size, first token); which piece a token falls in changes nothing.
template <int kLimit, typename Run>
QUIRE_INLINE void for_each_piece(Range tokens, Run run) {
  for (std::size_t token = tokens.begin; token < tokens.end;) {
    const std::size_t in_tile = kTokenTile - token % kTokenTile;
    const std::size_t left = smaller(tokens.end - token, in_tile);
    if (kLimit >= 8 && left >= 8) {
      run(std::integral_constant<int, kLimit >= 8 ? 8 : 1>(), token);
      token += 8;
    } else if (kLimit >= 4 && left >= 4) {
      run(std::integral_constant<int, kLimit >= 4 ? 4 : 1>(), token);
      token += 4;
    } else if (kLimit >= 2 && left >= 2) {
      run(std::integral_constant<int, kLimit >= 2 ? 2 : 1>(), token);
      token += 2;
    } else {
      run(std::integral_constant<int, 1>(), token);
      token += 1;
    }
  }
}

/// From this many tokens on a panel is expanded, where unpacking it again and again costs more than
/// the space: nibbles and bytes are nearly free.
constexpr std::size_t kExpandFrom = 24;
constexpr bool expands(const QuantSpec& spec) {
  return spec.is_super || (spec.bits != 4 && spec.bits != 8);
}

/// Up to this many tokens the wait for a panel from memory is a share of the time worth saving.
constexpr std::size_t kFewTokens = 64;

template <PackedFormat kFormat>
void linear_format(const PackedMatrix& w, const ActivationView& x, Range panels, Range tokens,
                   float* y, std::size_t y_stride) {
  constexpr bool kQuantized = kFormat >= PackedFormat::kQ8;
  LinearJob job = {nullptr, w.n_cols(), &x, 0, nullptr, y_stride, 0};
  const bool few = tokens.end - tokens.begin <= kFewTokens;
  for (std::size_t p = panels.begin; p < panels.end; ++p) {
    const std::size_t row = p * kPanelRows;
    job.panel = w.panel(p);
    [[maybe_unused]] const auto panel_bytes = static_cast<std::size_t>(w.panel(p + 1) - job.panel);
    job.rows = smaller(w.n_rows() - row, kPanelRows);
    job.y = y + row;
    if constexpr (kQuantized && expands(quant_spec(kFormat))) {
      if (tokens.end - tokens.begin >= kExpandFrom) {
        alignas(64) std::byte blocks[kExpandedBlocks * ExpandedBlock<kFormat>::kBytes];
        for (std::size_t from = 0; from < x.int8.n_blocks; from += kExpandedBlocks) {
          const std::size_t to = smaller(from + kExpandedBlocks, x.int8.n_blocks);
          expand_blocks<kFormat>(job.panel, from, to, blocks);
          for_each_piece<kMaxQuantTile>(tokens, [&](auto size, std::size_t token) {
            run_expanded_tile<kFormat, size>(job, token, blocks, from, to);
          });
        }
        continue;
      }
    }
    for_each_piece<kQuantized ? kMaxQuantTile : kMaxFloatTile>(
        tokens, [&](auto size, std::size_t token) {
          // The last tile of a panel asks for the next panel.
          const bool last = token + size >= tokens.end;
          job.ahead = few && last ? panel_bytes : 0;
          run_tile<kFormat, size>(job, token);
        });
  }
}

void linear(const PackedMatrix& w, const ActivationView& x, Range panels, Range tokens, float* y,
            std::size_t y_stride) {
  switch (w.format()) {
#define QUIRE_LINEAR_CASE(format) \
  case PackedFormat::format:      \
    return linear_format<PackedFormat::format>(w, x, panels, tokens, y, y_stride)
    QUIRE_LINEAR_CASE(kF32);
    QUIRE_LINEAR_CASE(kF16);
    QUIRE_LINEAR_CASE(kBF16);
    QUIRE_LINEAR_CASE(kQ8);
    QUIRE_LINEAR_CASE(kQ4);
    QUIRE_LINEAR_CASE(kQ4M);
    QUIRE_LINEAR_CASE(kQ5);
    QUIRE_LINEAR_CASE(kQ5M);
    QUIRE_LINEAR_CASE(kK2);
    QUIRE_LINEAR_CASE(kK3);
    QUIRE_LINEAR_CASE(kK4);
    QUIRE_LINEAR_CASE(kK5);
    QUIRE_LINEAR_CASE(kK6);
#undef QUIRE_LINEAR_CASE
  }
}

}  // namespace
}  // namespace quire
