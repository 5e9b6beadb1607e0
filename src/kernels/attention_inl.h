#pragma once
// Attention of a tile of queries over some of a split of a paged sequence. Inside a split, blocks
// of 128 absolute positions are folded in order by an online softmax. Every row (query token, head)
// does the same arithmetic whatever else is in the tile; positions a row may not see are never read
// into it.

#include "kernels/attention_mix_inl.h"
#include "kernels/attention_score_inl.h"
#include "kernels/elementwise_inl.h"

namespace quire {
namespace {

/// Addresses of the K tiles and V rows of positions [from, to) of the block that starts at `block`,
/// and of the K tiles behind them, as far as positions up to `end` have some.
void locate_block(AttentionBatch& batch, std::size_t block, std::size_t from, std::size_t to,
                  std::size_t end) {
  const AttentionTask& task = *batch.task;
  const KvLayout& layout = task.layout;
  const std::size_t k_tile_bytes = kKvTile * layout.head_dim * kv_type_bytes(layout.k_type);
  const std::size_t v_row_bytes = layout.head_dim * kv_type_bytes(layout.v_type);
  const auto page_of = [&](std::size_t position) {
    return task.pages[position / layout.page_size - task.first_page];
  };
  const auto k_tile_of = [&](std::size_t position) {
    return page_of(position) + layout.k_offset(task.kv_head) +
           position % layout.page_size / kKvTile * k_tile_bytes;
  };
  const std::size_t v_offset = layout.v_offset(task.kv_head);
  std::size_t tile = from / kKvTile;
  for (; tile * kKvTile < to; ++tile) {
    const std::size_t position = block + tile * kKvTile;
    batch.k_tiles[tile] = k_tile_of(position);
    const std::byte* v = page_of(position) + v_offset + position % layout.page_size * v_row_bytes;
    for (std::size_t i = 0; i < kKvTile; ++i) {
      batch.v_rows[tile * kKvTile + i] = v + i * v_row_bytes;
    }
  }
  const std::size_t position = block + tile * kKvTile;
  batch.k_tiles[tile] = position < end ? k_tile_of(position) : batch.k_tiles[tile - 1];
  const bool few_rows = batch.n_rows <= kMaxAttentionRows;
  batch.ahead_bytes = few_rows && block + kAttentionBlock < end ? k_tile_bytes / kKvTile : 0;
  for (tile = 0; batch.ahead_bytes != 0 && tile < kBlockTiles; ++tile) {
    batch.ahead[tile] = k_tile_of(smaller(block + kAttentionBlock + tile * kKvTile, end - 1));
  }
}

void attend_block(AttentionBatch& batch, std::size_t block) {
  std::size_t from = kAttentionBlock;
  std::size_t to = 0;
  std::size_t end = 0;
  for (std::size_t r = 0; r < batch.n_rows; ++r) {
    AttentionRow& row = batch.rows[r];
    end = larger(end, row.end);
    row.from = larger(row.begin, block) - block;
    row.to = smaller(row.end, block + kAttentionBlock);
    row.to = row.to > block + row.from ? row.to - block : row.from;
    if (row.from >= row.to) continue;
    from = smaller(from, row.from);
    to = larger(to, row.to);
  }
  if (from >= to) return;
  locate_block(batch, block, from, to, end);
  with_source(batch.task->layout.k_type, [&](auto source) {
    for (std::size_t tile = from / kKvTile; tile * kKvTile < to; ++tile) {
      score_tile_of<decltype(source)>(batch.k_tiles[tile], batch, tile);
    }
  });
  for (std::size_t r = 0; r < batch.n_rows; ++r) {
    if (batch.rows[r].from < batch.rows[r].to) {
      softmax_row(*batch.task, batch.rows[r], batch.scores[r],
                  kv_type_is_paired(batch.task->layout.v_type) ? batch.weights[r] : nullptr);
    }
  }
  with_source(batch.task->layout.v_type, [&](auto source) { mix_block<decltype(source)>(batch); });
}

void attend(const AttentionTask& task, Range positions) {
  AttentionBatch batch;
  batch.task = &task;
  const bool begins = positions.begin % kAttentionSplit == 0;
  const std::size_t n_rows = task.n_queries * task.group;
  // Wide heads come a few rows at a time: their rounded queries must fit.
  const std::size_t at_once = smaller(kRowBatch, kQueryPairs / task.layout.head_dim);
  for (std::size_t first = 0; first < n_rows; first += at_once) {
    batch.n_rows = smaller(at_once, n_rows - first);
    for (std::size_t r = 0; r < batch.n_rows; ++r) {
      const AttentionQuery& query = task.queries[(first + r) / task.group];
      const std::size_t head = (first + r) % task.group;
      const std::size_t sees_to = query.position + 1;
      const bool cut = task.window != 0 && sees_to > task.window;
      AttentionRow& row = batch.rows[r];
      row.q = query.q + head * task.layout.head_dim;
      row.record = query.records + head * task.record_stride;
      row.begin = larger(positions.begin, cut ? sees_to - task.window : 0);
      row.end = smaller(positions.end, sees_to);
      if (!begins) continue;
      row.record[0] = -__builtin_inff();
      for (std::size_t d = 0; d < task.layout.head_dim + 1; ++d) row.record[1 + d] = 0;
    }
    if (kv_type_is_paired(task.layout.k_type)) round_queries(batch);
    for (std::size_t block = positions.begin; block < positions.end; block += kAttentionBlock) {
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

}  // namespace
}  // namespace quire
