#include "model/attention.h"

#include <algorithm>
#include <array>

namespace quire {
namespace {

/// Everything about one KV head of a tile.
class HeadOfTile {
 public:
  /// `records`: [n_queries, group, n_splits] of attention_record_size(head_dim).
  HeadOfTile(const ModelInput& input, const AttentionLayer& layer, const AttentionTile& tile,
             std::size_t kv_head, float* records)
      : input_(input),
        layer_(layer),
        tile_(tile),
        kv_head_(kv_head),
        records_(records),
        group_(layer.n_heads / layer.layout.n_kv_heads),
        record_(attention_record_size(layer.layout.head_dim)) {}

  void attend(const Kernels& kernels, const float* q, std::size_t split) const {
    std::array<AttentionQuery, kMaxQueryTile> queries;
    for (std::size_t i = 0; i < tile_.n_queries; ++i)
      queries[i] = {.q = q + offset(i),
                    .position = tile_.queries[i].position,
                    .records = row_records(i, 0) + (split - tile_.first_split) * record_};
    const std::size_t end = (split + 1) * kAttentionSplit;
    std::size_t begin = split * kAttentionSplit;
    if (begin < tile_.shared_end) {
      const Range shared{begin, std::min(end, tile_.shared_end)};
      kernels.attend(task(0, queries.data(), tile_.n_queries), shared);
      begin = shared.end;
    }
    if (begin == end) return;
    for (std::size_t i = 0; i < tile_.n_queries; ++i)
      kernels.attend(task(i, &queries[i], 1), {begin, end});
  }

  void merge(const Kernels& kernels, float* out) const {
    const std::size_t head_dim = layer_.layout.head_dim;
    for (std::size_t i = 0; i < tile_.n_queries; ++i)
      for (std::size_t h = 0; h < group_; ++h)
        kernels.merge_splits(row_records(i, h), tile_.n_splits, head_dim,
                             out + offset(i) + h * head_dim);
  }

 private:
  /// Of the first head of query i that reads this KV head, in rows of q or of the output.
  std::size_t offset(std::size_t i) const {
    return (tile_.queries[i].row * layer_.n_heads + kv_head_ * group_) * layer_.layout.head_dim;
  }

  float* row_records(std::size_t i, std::size_t h) const {
    return records_ + (i * group_ + h) * tile_.n_splits * record_;
  }

  /// Of `n` queries that see the pages of query i's sequence.
  AttentionTask task(std::size_t i, const AttentionQuery* queries, std::size_t n) const {
    const PageTableView& table =
        input_.tables[tile_.queries[i].sequence * layer_.n_layers + layer_.index];
    return {.layout = layer_.layout,
            .pages = table.pages.data(),
            .first_page = table.first_page,
            .kv_head = kv_head_,
            .group = group_,
            .queries = queries,
            .n_queries = n,
            .record_stride = tile_.n_splits * record_,
            .window = layer_.window,
            .scale = layer_.scale,
            .softcap = layer_.softcap};
  }

  const ModelInput& input_;
  const AttentionLayer& layer_;
  const AttentionTile& tile_;
  std::size_t kv_head_;
  float* records_;
  std::size_t group_;
  std::size_t record_;
};

}  // namespace

void reserve_attention(const ModelInput& input, const AttentionLayer& layer, std::size_t n_workers,
                       Workspace& ws) {
  ws.attention_plans.resize(std::max(ws.attention_plans.size(), layer.n_layers));
  AttentionPlan& plan = ws.attention_plans[layer.index];
  plan_attention(input, layer, n_workers, plan);
  const std::size_t n_floats = plan.n_records * attention_record_size(layer.layout.head_dim);
  if (plan.share_splits) {
    ws.split_records.resize(std::max(ws.split_records.size(), n_floats));
    return;
  }
  ws.worker_records.resize(std::max(ws.worker_records.size(), n_workers));
  for (ScratchArray<float>& records : ws.worker_records)
    records.resize(std::max(records.size(), n_floats));
}

void paged_attention(ThreadPool::Worker& worker, const Kernels& kernels, const ModelInput& input,
                     const AttentionLayer& layer, Workspace& ws) {
  const AttentionPlan& plan = ws.attention_plans[layer.index];
  const std::size_t record = attention_record_size(layer.layout.head_dim);
  const std::size_t group = layer.n_heads / layer.layout.n_kv_heads;
  const auto head_of = [&](std::size_t tile_index, std::size_t kv_head) {
    const AttentionTile& tile = plan.tiles[tile_index];
    float* records =
        plan.share_splits
            ? ws.split_records.data() +
                  (tile.first_record + kv_head * tile.n_queries * group * tile.n_splits) * record
            : ws.worker_records[worker.index()].data();
    return HeadOfTile(input, layer, tile, kv_head, records);
  };

  for (const AttentionItem& item : plan.items) {
    if (item.worker != worker.index()) continue;
    const HeadOfTile head = head_of(item.tile, item.kv_head);
    for (std::size_t split = item.first_split; split < item.end_split; ++split)
      head.attend(kernels, ws.q.data(), split);
    if (!plan.share_splits) head.merge(kernels, ws.attention.data());
  }
  if (!plan.share_splits) return;

  // Few rows over a long cache: splits of the same rows lie with several workers.
  worker.barrier();
  const Range heads = worker.share(plan.tiles.size() * layer.layout.n_kv_heads);
  for (std::size_t i = heads.begin; i < heads.end; ++i)
    head_of(i / layer.layout.n_kv_heads, i % layer.layout.n_kv_heads)
        .merge(kernels, ws.attention.data());
}

}  // namespace quire
