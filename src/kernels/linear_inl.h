#pragma once
// y = W x over 16-row panels: the loops over panels and token tiles, and the float formats.

#include "kernels/kernels.h"
#include "kernels/linear_quant_inl.h"

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
};

template <PackedFormat kFormat, int kTokens>
[[gnu::noinline]] void run_tile(const LinearJob& job, std::size_t token) {
  F32x16 y[kTokens];
  const ActivationView& x = *job.x;
  if constexpr (kFormat >= PackedFormat::kQ8) {
    const std::size_t n_blocks = job.n_cols / kQuantBlock;
    const QuantTile tile = {x.q + token * job.n_cols,   x.fine + token * job.n_cols,
                            x.scale + token * n_blocks, x.steps + token * n_blocks,
                            x.sum + token * n_blocks,   job.n_cols};
    quant_tile<kFormat>(job.panel, tile, y);
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
  float* out = job.y + token * job.y_stride;
  for (int t = 0; t < kTokens; ++t, out += job.y_stride) {
    if (job.rows == kPanelRows) {
      store(out, y[t]);
    } else {
      store_first(out, y[t], job.rows);
    }
  }
}

/// The largest tiles that fit, then smaller ones; which tile a token falls in changes nothing.
template <PackedFormat kFormat, int kTokens>
QUIRE_INLINE std::size_t run_tiles(const LinearJob& job, std::size_t token, std::size_t end) {
  constexpr int kLimit = kFormat >= PackedFormat::kQ8 ? kMaxQuantTile : kMaxFloatTile;
  if constexpr (kTokens <= kLimit) {
    for (; token + kTokens <= end; token += kTokens) run_tile<kFormat, kTokens>(job, token);
  }
  return token;
}

template <PackedFormat kFormat>
void linear_format(const PackedMatrix& w, const ActivationView& x, Range panels, Range tokens,
                   float* y, std::size_t y_stride) {
  LinearJob job = {nullptr, w.n_cols(), &x, 0, nullptr, y_stride};
  for (std::size_t p = panels.begin; p < panels.end; ++p) {
    const std::size_t row = p * kPanelRows;
    const std::size_t left = w.n_rows() - row;
    job.panel = w.panel(p);
    job.rows = left < kPanelRows ? left : kPanelRows;
    job.y = y + row;
    std::size_t token = run_tiles<kFormat, 8>(job, tokens.begin, tokens.end);
    token = run_tiles<kFormat, 4>(job, token, tokens.end);
    token = run_tiles<kFormat, 2>(job, token, tokens.end);
    run_tiles<kFormat, 1>(job, token, tokens.end);
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
