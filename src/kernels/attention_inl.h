#pragma once
// Attention of a tile of queries over one split of a paged sequence. Inside a split, blocks of 128
// absolute positions are folded in order by an online softmax: scores 16 tokens at a time (one lane
// each), then the weighted sum of V rows in position order. Every row (query token, head) does the
// same arithmetic whatever else is in the tile; positions a row may not see are never read into it.

#include "kernels/elementwise_inl.h"
#include "kernels/kernels.h"

namespace quire {
namespace {

constexpr std::size_t kScoreBlock =
    128;  // positions per softmax update; every page size divides it
constexpr std::size_t kBlockTiles = kScoreBlock / kKvTile;
constexpr std::size_t kRowBatch = 32;       // rows that walk the pages together
constexpr std::size_t kExpandedDims = 256;  // largest head_dim whose K tile is converted once

/// One (query token, head): where it reads, accumulates and how far it sees.
struct AttentionRow {
  const float* q;
  float* record;           // m, l, acc[head_dim]
  std::size_t begin, end;  // positions visible in this split
  std::size_t from, to;    // the part of it in the current block, relative to the block
};

struct AttentionBatch {
  const AttentionTask* task;
  std::size_t n_rows;
  AttentionRow rows[kRowBatch];
  alignas(64) float scores[kRowBatch][kScoreBlock];  // then probabilities
  const std::byte* k_tiles[kBlockTiles];
  const std::byte* v_rows[kScoreBlock];
};

QUIRE_INLINE std::size_t smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }
QUIRE_INLINE std::size_t larger(std::size_t a, std::size_t b) { return a > b ? a : b; }

/// Raw q.k of kRows rows against 16 tokens: K tile [head_dim][16], two chains over even and odd d.
template <typename Source, int kRows>
QUIRE_INLINE void score_rows(const typename Source::Type* k, std::size_t head_dim,
                             AttentionBatch& batch, std::size_t row, std::size_t tile) {
  const float* q[kRows];
  F32x16 even[kRows];
  F32x16 odd[kRows];
  for (int r = 0; r < kRows; ++r) {
    q[r] = batch.rows[row + static_cast<std::size_t>(r)].q;
    even[r] = splat(0);
    odd[r] = splat(0);
  }
  for (std::size_t d = 0; d < head_dim; d += 2, k += 2 * kKvTile) {
    const F32x16 k0 = Source::read(k);
    const F32x16 k1 = Source::read(k + kKvTile);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      even[r] = fma(k0, splat(q[r][d]), even[r]);
      odd[r] = fma(k1, splat(q[r][d + 1]), odd[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    store(&batch.scores[row + static_cast<std::size_t>(r)][tile * kKvTile], even[r] + odd[r]);
  }
}

template <typename Source, int kRows>
QUIRE_INLINE std::size_t score_rows_from(const typename Source::Type* k, AttentionBatch& batch,
                                         std::size_t row, std::size_t tile) {
  if constexpr (kRows <= kMaxAttentionRows) {
    const std::size_t head_dim = batch.task->layout.head_dim;
    for (; row + kRows <= batch.n_rows; row += kRows) {
      score_rows<Source, kRows>(k, head_dim, batch, row, tile);
    }
  }
  return row;
}

template <typename Source>
void score_tile(const typename Source::Type* k, AttentionBatch& batch, std::size_t tile) {
  std::size_t row = score_rows_from<Source, 6>(k, batch, 0, tile);
  row = score_rows_from<Source, 4>(k, batch, row, tile);
  row = score_rows_from<Source, 3>(k, batch, row, tile);
  row = score_rows_from<Source, 2>(k, batch, row, tile);
  score_rows_from<Source, 1>(k, batch, row, tile);
}

/// Converts the tile to f32 once when several groups of rows read it.
template <typename Source>
void score_tile_of(const std::byte* tile_bytes, AttentionBatch& batch, std::size_t tile) {
  const auto* k = reinterpret_cast<const typename Source::Type*>(tile_bytes);
  const std::size_t head_dim = batch.task->layout.head_dim;
  if (batch.n_rows <= kMaxAttentionRows || head_dim > kExpandedDims) {
    return score_tile<Source>(k, batch, tile);
  }
  alignas(64) float expanded[kExpandedDims * kKvTile];
  for (std::size_t d = 0; d < head_dim; ++d) {
    store(expanded + d * kKvTile, Source::read(k + d * kKvTile));
  }
  score_tile<SourceF32>(expanded, batch, tile);
}

/// Turns a row's raw scores of the block into probabilities relative to its new maximum and
/// rescales what it gathered before.
void softmax_row(const AttentionTask& task, AttentionRow& row, float* scores) {
  const int from = static_cast<int>(row.from);
  const int to = static_cast<int>(row.to);
  const int first_tile = from / 16;
  const int end_tile = (to + 15) / 16;
  const auto visible = [&](int tile) {
    const int begin = from - 16 * tile;
    const int end = to - 16 * tile;
    return lane_range(begin > 0 ? begin : 0, end < 16 ? end : 16);
  };
  const F32x16 nothing = splat(-__builtin_inff());
  const F32x16 factor = splat(task.scale);
  const F32x16 cap = splat(task.softcap);
  F32x16 top = nothing;
  for (int tile = first_tile; tile < end_tile; ++tile) {
    F32x16 s = load(scores + 16 * tile) * factor;
    if (task.softcap != 0) s = soft_capped(s, cap);
    s = select(visible(tile), s, nothing);
    store(scores + 16 * tile, s);
    top = max(top, s);
  }
  float& m = row.record[0];
  float& l = row.record[1];
  const float block_max = reduce_max(top);
  const float new_max = m > block_max ? m : block_max;
  if (new_max == -__builtin_inff()) {  // nothing but -inf scores: no weight to give
    row.to = row.from;
    return;
  }
  const F32x16 shift = splat(new_max);
  F32x16 total = splat(0);
  for (int tile = first_tile; tile < end_tile; ++tile) {
    const F32x16 p = select(visible(tile), exp(load(scores + 16 * tile) - shift), splat(0));
    store(scores + 16 * tile, p);
    total = total + p;
  }
  alignas(64) float lanes[16];
  store(lanes, exp(splat(m) - shift));
  const float correction = lanes[0];
  l = l * correction + reduce_add(total);
  m = new_max;
  if (correction != 1.0f) {
    float* acc = row.record + 2;
    const F32x16 c = splat(correction);
    const std::size_t head_dim = task.layout.head_dim;
    std::size_t d = 0;
    for (; d + 16 <= head_dim; d += 16) store(acc + d, load(acc + d) * c);
    if (d < head_dim) {
      store_first(acc + d, load_first(acc + d, head_dim - d) * c, head_dim - d);
    }
  }
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

template <typename Source, int kRows>
void mix_span(AttentionBatch& batch, std::size_t row, std::size_t from, std::size_t to) {
  if (from >= to) return;
  const std::size_t head_dim = batch.task->layout.head_dim;
  std::size_t d = 0;
  for (; d + 16 * kMixChunks <= head_dim; d += 16 * kMixChunks) {
    mix_columns<Source, kRows, kMixChunks>(batch, row, from, to, d, 0);
  }
  for (; d + 16 <= head_dim; d += 16) mix_columns<Source, kRows, 1>(batch, row, from, to, d, 0);
  if (d < head_dim) mix_columns<Source, kRows, 1>(batch, row, from, to, d, head_dim - d);
}

/// Positions that all kRows rows see are mixed together; what only some see (the causal edge, the
/// edge of the window) row by row, before and after, so that each row's order stays ascending.
template <typename Source, int kRows>
QUIRE_INLINE std::size_t mix_rows_from(AttentionBatch& batch, std::size_t row) {
  if constexpr (kRows <= kMaxAttentionRows) {
    for (; row + kRows <= batch.n_rows; row += kRows) {
      std::size_t from = 0;
      std::size_t to = kScoreBlock;
      for (int r = 0; r < kRows; ++r) {
        const AttentionRow& each = batch.rows[row + static_cast<std::size_t>(r)];
        from = larger(from, each.from);
        to = smaller(to, each.to);
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

/// Addresses of the K tiles and V rows of positions [from, to) of the block that starts at `block`.
void locate_block(AttentionBatch& batch, std::size_t block, std::size_t from, std::size_t to) {
  const AttentionTask& task = *batch.task;
  const KvLayout& layout = task.layout;
  const std::size_t k_tile_bytes = kKvTile * layout.head_dim * kv_type_bytes(layout.k_type);
  const std::size_t v_row_bytes = layout.head_dim * kv_type_bytes(layout.v_type);
  const std::size_t k_offset = layout.k_offset(task.kv_head);
  const std::size_t v_offset = layout.v_offset(task.kv_head);
  for (std::size_t tile = from / kKvTile; tile * kKvTile < to; ++tile) {
    const std::size_t position = block + tile * kKvTile;
    const std::byte* page = task.pages[position / layout.page_size - task.first_page];
    const std::size_t slot = position % layout.page_size;
    batch.k_tiles[tile] = page + k_offset + slot / kKvTile * k_tile_bytes;
    const std::byte* v = page + v_offset + slot * v_row_bytes;
    for (std::size_t i = 0; i < kKvTile; ++i) {
      batch.v_rows[tile * kKvTile + i] = v + i * v_row_bytes;
    }
  }
}

template <typename F>
QUIRE_INLINE void with_source(KvType type, F f) {
  switch (type) {
    case KvType::kF32:
      return f(SourceF32{});
    case KvType::kF16:
      return f(SourceF16{});
    case KvType::kBF16:
      return f(SourceBF16{});
  }
}

void attend_block(AttentionBatch& batch, std::size_t block) {
  std::size_t from = kScoreBlock;
  std::size_t to = 0;
  for (std::size_t r = 0; r < batch.n_rows; ++r) {
    AttentionRow& row = batch.rows[r];
    row.from = larger(row.begin, block) - block;
    row.to = smaller(row.end, block + kScoreBlock);
    row.to = row.to > block + row.from ? row.to - block : row.from;
    if (row.from >= row.to) continue;
    from = smaller(from, row.from);
    to = larger(to, row.to);
  }
  if (from >= to) return;
  locate_block(batch, block, from, to);
  with_source(batch.task->layout.k_type, [&](auto source) {
    for (std::size_t tile = from / kKvTile; tile * kKvTile < to; ++tile) {
      score_tile_of<decltype(source)>(batch.k_tiles[tile], batch, tile);
    }
  });
  for (std::size_t r = 0; r < batch.n_rows; ++r) {
    if (batch.rows[r].from < batch.rows[r].to) {
      softmax_row(*batch.task, batch.rows[r], batch.scores[r]);
    }
  }
  with_source(batch.task->layout.v_type, [&](auto source) { mix_block<decltype(source)>(batch); });
}

void attend_split(const AttentionTask& task, std::size_t split, float* records,
                  std::size_t record_stride) {
  AttentionBatch batch;
  batch.task = &task;
  const std::size_t split_begin = split * kAttentionSplit;
  const std::size_t split_end = split_begin + kAttentionSplit;
  const std::size_t n_rows = task.n_q * task.group;
  for (std::size_t first = 0; first < n_rows; first += kRowBatch) {
    batch.n_rows = smaller(kRowBatch, n_rows - first);
    for (std::size_t r = 0; r < batch.n_rows; ++r) {
      const std::size_t token = (first + r) / task.group;
      const std::size_t head = (first + r) % task.group;
      const std::size_t sees_to = task.q_position + token + 1;
      const bool cut = task.window != 0 && sees_to > task.window;
      AttentionRow& row = batch.rows[r];
      row.q = task.q + token * task.q_stride + head * task.layout.head_dim;
      row.record = records + (first + r) * record_stride;
      row.begin = larger(split_begin, cut ? sees_to - task.window : 0);
      row.end = smaller(split_end, sees_to);
      row.record[0] = -__builtin_inff();
      for (std::size_t d = 0; d < task.layout.head_dim + 1; ++d) row.record[1 + d] = 0;
    }
    for (std::size_t block = split_begin; block < split_end; block += kScoreBlock) {
      attend_block(batch, block);
    }
  }
}

void merge_splits(const float* records, std::size_t n_splits, std::size_t head_dim, float* out) {
  const std::size_t size = head_dim + 2;
  float m = -__builtin_inff();
  for (std::size_t s = 0; s < n_splits; ++s) {
    const float split_max = records[s * size];
    m = m > split_max ? m : split_max;
  }
  for (std::size_t d = 0; d < head_dim; ++d) out[d] = 0;
  float total = 0;
  for (std::size_t s = 0; s < n_splits; ++s) {
    const float* record = records + s * size;
    if (record[1] == 0) continue;  // saw nothing
    const F32x16 weight = exp(splat(record[0]) - splat(m));
    alignas(64) float lanes[16];
    store(lanes, weight);
    total += lanes[0] * record[1];
    zip(record + 2, out, out, head_dim, [&](F32x16 a, F32x16 b) { return fma(weight, a, b); });
  }
  if (total == 0) return;
  const F32x16 divisor = splat(total);
  zip(out, out, out, head_dim, [&](F32x16 a, F32x16) { return a / divisor; });
}

/// n values to Source's type, `stride` elements apart.
template <typename Source>
QUIRE_INLINE void write_vector(const float* x, std::size_t n, typename Source::Type* out,
                               std::size_t stride) {
  typename Source::Type lanes[16];
  for (std::size_t d = 0; d < n; d += 16) {
    const std::size_t count = smaller(16, n - d);
    Source::write(lanes, count == 16 ? load(x + d) : load_first(x + d, count));
    for (std::size_t i = 0; i < count; ++i) out[(d + i) * stride] = lanes[i];
  }
}

void kv_write(const KvLayout& layout, std::byte* page, std::size_t slot, const float* k,
              const float* v) {
  const std::size_t head_dim = layout.head_dim;
  for (std::size_t h = 0; h < layout.n_kv_heads; ++h) {
    with_source(layout.k_type, [&](auto source) {
      using Source = decltype(source);
      auto* out = reinterpret_cast<typename Source::Type*>(page + layout.k_offset(h));
      out += slot / kKvTile * head_dim * kKvTile + slot % kKvTile;
      write_vector<Source>(k + h * head_dim, head_dim, out, kKvTile);
    });
    with_source(layout.v_type, [&](auto source) {
      using Source = decltype(source);
      auto* out = reinterpret_cast<typename Source::Type*>(page + layout.v_offset(h));
      write_vector<Source>(v + h * head_dim, head_dim, out + slot * head_dim, 1);
    });
  }
}

}  // namespace
}  // namespace quire
