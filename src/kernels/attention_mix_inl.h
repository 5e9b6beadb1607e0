#pragma once
// Second half of attention: the weighted sum of V rows, in position order.

#include "kernels/attention_score_inl.h"

namespace quire {
namespace {

/// What to ask for while position j is mixed: once, not for every part of a row.
QUIRE_INLINE void ask_ahead(const AttentionBatch& batch, std::size_t row, std::size_t d0,
                            std::size_t j) {
  if (row != 0 || d0 != 0 || batch.ahead_bytes == 0) return;
  const std::byte* k = batch.ahead[j / kKvTile] + j % kKvTile * batch.ahead_bytes;
  for (std::size_t i = 0; i < batch.ahead_bytes; i += 64) __builtin_prefetch(k + i, 0, kIntoL2);
}

/// acc[r][d0 ..] += sum over positions j of p[r][j] * v[j][d0 ..] for kChunks vectors of 16 (or the
/// last `tail` lanes), j ascending.
template <typename Source, int kRows, int kChunks>
QUIRE_INLINE void mix_columns(AttentionBatch& batch, std::size_t row, std::size_t from,
                              std::size_t to, std::size_t d0, std::size_t tail) {
  F32x16 acc[kRows][kChunks];
  const float* p[kRows];
  float* out[kRows];
  for (int r = 0; r < kRows; ++r) {
    out[r] = batch.rows[row + static_cast<std::size_t>(r)].record + 2 + d0;
    p[r] = batch.scores[row + static_cast<std::size_t>(r)];
    for (int c = 0; c < kChunks; ++c) {
      acc[r][c] = tail != 0 ? load_first(out[r], tail) : load(out[r] + 16 * c);
    }
  }
  for (std::size_t j = from; j < to; ++j) {
    ask_ahead(batch, row, d0, j);
    const auto* v = reinterpret_cast<const typename Source::Type*>(batch.v_rows[j]) + d0;
    F32x16 values[kChunks];
#pragma GCC unroll 4
    for (int c = 0; c < kChunks; ++c) {
      values[c] = tail != 0 ? Source::read_first(v, tail) : Source::read(v + 16 * c);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const F32x16 weight = splat(p[r][j]);
#pragma GCC unroll 4
      for (int c = 0; c < kChunks; ++c) acc[r][c] = fma(weight, values[c], acc[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kChunks; ++c) {
      if (tail != 0) {
        store_first(out[r], acc[r][c], tail);
      } else {
        store(out[r] + 16 * c, acc[r][c]);
      }
    }
  }
}

/// The same of bf16 pairs of tokens, V [tokens / 2][head_dim][2]. Where `from` or `to` is odd, half
/// of a pair is invisible; what lies there is left out, whatever it is.
template <int kRows, int kChunks>
QUIRE_INLINE void mix_paired_columns(AttentionBatch& batch, std::size_t row, std::size_t from,
                                     std::size_t to, std::size_t d0, std::size_t tail) {
  F32x16 acc[kRows][kChunks];
  const std::uint16_t* p[kRows];
  float* out[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    out[r] = batch.rows[row + static_cast<std::size_t>(r)].record + 2 + d0;
    p[r] = batch.weights[row + static_cast<std::size_t>(r)];
#pragma GCC unroll 4
    for (int c = 0; c < kChunks; ++c) {
      acc[r][c] = flushed(tail != 0 ? load_first(out[r], tail) : load(out[r] + 16 * c));
    }
  }
  const auto add = [&](std::size_t j, std::uint32_t seen) __attribute__((always_inline)) {
    ask_ahead(batch, row, d0, j);
    ask_ahead(batch, row, d0, j + 1);
    const auto* v = reinterpret_cast<const std::uint16_t*>(batch.v_rows[j]) + 2 * d0;
    Pairs values[kChunks];
#pragma GCC unroll 4
    for (int c = 0; c < kChunks; ++c) {
      values[c] = tail != 0 ? load_pairs_first(v, tail) : load_pairs(v + 32 * c);
      if (seen != ~0u) values[c] = keep_of_pairs(values[c], seen);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Pairs weight = splat_pair(p[r] + j);
#pragma GCC unroll 4
      for (int c = 0; c < kChunks; ++c) acc[r][c] = dot_pairs(acc[r][c], values[c], weight);
    }
  };
  constexpr std::uint32_t kFirst = 0xffff;
  std::size_t j = from & ~std::size_t{1};
  if (j < from) {
    add(j, ~kFirst);
    j += 2;
  }
  for (; j + 2 <= to; j += 2) add(j, ~0u);
  if (j < to) add(j, kFirst);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kChunks; ++c) {
      if (tail != 0) {
        store_first(out[r], acc[r][c], tail);
      } else {
        store(out[r] + 16 * c, acc[r][c]);
      }
    }
  }
}

template <typename Source, int kRows, int kChunks>
QUIRE_INLINE void mix_some(AttentionBatch& batch, std::size_t row, std::size_t from, std::size_t to,
                           std::size_t d0, std::size_t tail) {
  if constexpr (Source::kPaired) {
    mix_paired_columns<kRows, kChunks>(batch, row, from, to, d0, tail);
  } else {
    mix_columns<Source, kRows, kChunks>(batch, row, from, to, d0, tail);
  }
}

template <typename Source, int kRows>
void mix_span(AttentionBatch& batch, std::size_t row, std::size_t from, std::size_t to) {
  const std::size_t head_dim = batch.task->layout.head_dim;
  // A wide head takes several passes over V; short runs of rows stay in the first-level cache.
  constexpr std::size_t kCachedBytes = 16384;
  const std::size_t run =
      larger(kCachedBytes / (head_dim * sizeof(typename Source::Type)) / 2 * 2, 2);
  for (std::size_t end = from; from < to; from = end) {
    end = smaller(to, (from + run) / 2 * 2);  // pairs stay whole
    std::size_t d = 0;
    for (; d + 16 * kMixChunks <= head_dim; d += 16 * kMixChunks) {
      mix_some<Source, kRows, kMixChunks>(batch, row, from, end, d, 0);
    }
    for (; d + 16 <= head_dim; d += 16) mix_some<Source, kRows, 1>(batch, row, from, end, d, 0);
    if (d < head_dim) mix_some<Source, kRows, 1>(batch, row, from, end, d, head_dim - d);
  }
}

/// Positions that all kRows rows see are mixed together; what only some see (the causal edge, the
/// edge of the window) row by row, before and after, so that each row's order stays ascending.
template <typename Source, int kRows>
QUIRE_INLINE std::size_t mix_rows_from(AttentionBatch& batch, std::size_t row) {
  if constexpr (kRows <= kMaxAttentionRows) {
    for (; row + kRows <= batch.n_rows; row += kRows) {
      std::size_t from = 0;
      std::size_t to = kAttentionBlock;
      for (int r = 0; r < kRows; ++r) {
        const AttentionRow& each = batch.rows[row + static_cast<std::size_t>(r)];
        from = larger(from, each.from);
        to = smaller(to, each.to);
      }
      if constexpr (Source::kPaired) {  // a pair that not all see whole is left to the single rows
        from += from % 2;
        to -= to % 2;
      }
      const bool shared = from < to;
      for (int r = 0; r < kRows; ++r) {
        const std::size_t i = row + static_cast<std::size_t>(r);
        const AttentionRow& each = batch.rows[i];
        mix_span<Source, 1>(batch, i, each.from, shared ? from : each.to);
      }
      if (!shared) continue;
      mix_span<Source, kRows>(batch, row, from, to);
      for (int r = 0; r < kRows; ++r) {
        const std::size_t i = row + static_cast<std::size_t>(r);
        mix_span<Source, 1>(batch, i, to, batch.rows[i].to);
      }
    }
  }
  return row;
}

template <typename Source>
void mix_block(AttentionBatch& batch) {
  std::size_t row = mix_rows_from<Source, 6>(batch, 0);
  row = mix_rows_from<Source, 4>(batch, row);
  row = mix_rows_from<Source, 3>(batch, row);
  row = mix_rows_from<Source, 2>(batch, row);
  mix_rows_from<Source, 1>(batch, row);
}

}  // namespace
}  // namespace quire
