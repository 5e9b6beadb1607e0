#include "model/attention.h"

#include <algorithm>

#include "model/model.h"

namespace quire {
namespace {

/// A few neighbouring query tokens of one sequence.
struct Tile {
  std::size_t sequence;
  std::size_t first_row;
  std::size_t n_q;
  std::size_t position;
  std::size_t first_split;
  std::size_t n_splits;
};

/// Calls visit(tile) for every tile of the input, in row order.
template <typename Visit>
void for_each_tile(const ModelInput& input, std::size_t window, Visit&& visit) {
  for (std::size_t s = 0; s < input.sequences.size(); ++s) {
    const SequenceSlice& slice = input.sequences[s];
    for (std::size_t t = 0; t < slice.n_tokens; t += kMaxQueryTile) {
      const std::size_t n_q = std::min(kMaxQueryTile, slice.n_tokens - t);
      const std::size_t position = slice.position + t;
      const std::size_t oldest = window != 0 && position + 1 > window ? position + 1 - window : 0;
      const std::size_t first_split = oldest / kAttentionSplit;
      const std::size_t last_split = (position + n_q - 1) / kAttentionSplit;
      visit(Tile{.sequence = s,
                 .first_row = slice.first_row + t,
                 .n_q = n_q,
                 .position = position,
                 .first_split = first_split,
                 .n_splits = last_split - first_split + 1});
    }
  }
}

AttentionTask make_task(const ModelInput& input, const AttentionLayer& layer, const Tile& tile,
                        std::size_t kv_head, const float* q) {
  const std::size_t q_dim = layer.n_heads * layer.layout.head_dim;
  const std::size_t group = layer.n_heads / layer.layout.n_kv_heads;
  const PageTableView& table = input.tables[tile.sequence * layer.n_layers + layer.index];
  return {.layout = layer.layout,
          .pages = table.pages.data(),
          .first_page = table.first_page,
          .kv_head = kv_head,
          .group = group,
          .q = q + tile.first_row * q_dim + kv_head * group * layer.layout.head_dim,
          .q_stride = q_dim,
          .n_q = tile.n_q,
          .q_position = tile.position,
          .window = layer.window,
          .scale = layer.scale,
          .softcap = layer.softcap};
}

/// How the work of one layer is cut, and what it needs for that.
struct AttentionPlan {
  bool share_splits = false;      // one item is a split, not all splits of a tile and head
  std::size_t shared_floats = 0;  // records of all workers together
  std::size_t floats_per_worker = 0;
};

AttentionPlan plan_attention(const ModelInput& input, const AttentionLayer& layer,
                             std::size_t n_workers) {
  const std::size_t record = attention_record_size(layer.layout.head_dim);
  const std::size_t group = layer.n_heads / layer.layout.n_kv_heads;
  std::size_t n_items = 0;
  std::size_t n_records = 0;
  std::size_t most_splits = 0;
  for_each_tile(input, layer.window, [&](const Tile& tile) {
    n_items += layer.layout.n_kv_heads;
    n_records += tile.n_q * layer.n_heads * tile.n_splits;
    most_splits = std::max(most_splits, tile.n_splits);
  });
  AttentionPlan plan;
  plan.share_splits = n_workers > 1 && most_splits > 1 && n_items < 4 * n_workers;
  if (plan.share_splits)
    plan.shared_floats = n_records * record;
  else
    plan.floats_per_worker = kMaxQueryTile * group * most_splits * record;
  return plan;
}

}  // namespace

void reserve_attention(const ModelInput& input, const AttentionLayer& layer, std::size_t n_workers,
                       Workspace& ws) {
  const AttentionPlan plan = plan_attention(input, layer, n_workers);
  ws.split_records.resize(std::max(ws.split_records.size(), plan.shared_floats));
  ws.worker_records.resize(std::max(ws.worker_records.size(), n_workers));
  for (ScratchArray<float>& records : ws.worker_records)
    records.resize(std::max(records.size(), plan.floats_per_worker));
}

void paged_attention(ThreadPool::Worker& worker, const Kernels& kernels, const ModelInput& input,
                     const AttentionLayer& layer, Workspace& ws) {
  const std::size_t head_dim = layer.layout.head_dim;
  const std::size_t n_kv_heads = layer.layout.n_kv_heads;
  const std::size_t group = layer.n_heads / n_kv_heads;
  const std::size_t record = attention_record_size(head_dim);

  const AttentionPlan plan = plan_attention(input, layer, worker.count());

  const auto merge = [&](const Tile& tile, std::size_t kv_head, const float* records) {
    for (std::size_t t = 0; t < tile.n_q; ++t) {
      float* out = ws.attention.data() + (tile.first_row + t) * layer.n_heads * head_dim +
                   kv_head * group * head_dim;
      for (std::size_t h = 0; h < group; ++h)
        kernels.merge_splits(records + (t * group + h) * tile.n_splits * record, tile.n_splits,
                             head_dim, out + h * head_dim);
    }
  };

  // Enough items for everyone: each worker does whole rows and merges them at once.
  if (!plan.share_splits) {
    float* records = ws.worker_records[worker.index()].data();
    std::size_t item = 0;
    for_each_tile(input, layer.window, [&](const Tile& tile) {
      for (std::size_t h = 0; h < n_kv_heads; ++h, ++item) {
        if (item % worker.count() != worker.index()) continue;
        const AttentionTask task = make_task(input, layer, tile, h, ws.q.data());
        for (std::size_t s = 0; s < tile.n_splits; ++s)
          kernels.attend_split(task, tile.first_split + s, records + s * record,
                               tile.n_splits * record);
        merge(tile, h, records);
      }
    });
    return;
  }

  // Few rows over a long cache: share out the splits, meet, merge in order.
  const auto for_each_head = [&](auto&& visit) {
    float* records = ws.split_records.data();
    for_each_tile(input, layer.window, [&](const Tile& tile) {
      for (std::size_t h = 0; h < n_kv_heads; ++h) {
        visit(tile, h, records);
        records += tile.n_q * group * tile.n_splits * record;
      }
    });
  };
  std::size_t item = 0;
  for_each_head([&](const Tile& tile, std::size_t h, float* records) {
    const AttentionTask task = make_task(input, layer, tile, h, ws.q.data());
    for (std::size_t s = 0; s < tile.n_splits; ++s, ++item)
      if (item % worker.count() == worker.index())
        kernels.attend_split(task, tile.first_split + s, records + s * record,
                             tile.n_splits * record);
  });
  worker.barrier();
  item = 0;
  for_each_head([&](const Tile& tile, std::size_t h, const float* records) {
    if (item++ % worker.count() == worker.index()) merge(tile, h, records);
  });
}

}  // namespace quire
