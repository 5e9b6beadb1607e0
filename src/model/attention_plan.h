#pragma once
// How the attention of one layer is cut into work.

#include <array>
#include <cstddef>
#include <vector>

#include "kernels/kernels.h"
#include "model/model_input.h"

namespace quire {

/// What the attention of one layer needs besides the workspace.
struct AttentionLayer {
  KvLayout layout;
  std::size_t n_heads = 0;
  std::size_t window = 0;
  std::size_t index = 0;  // layer, for the page tables
  std::size_t n_layers = 0;
  float scale = 1;
  float softcap = 0;
};

/// Query tokens that walk the pages together: neighbours of one sequence, or tokens of sequences
/// with common first pages (after a fork, or a prefix that was found in the cache), which are then
/// read once for all of them.
struct AttentionTile {
  struct Query {
    std::size_t sequence;  // of the input
    std::size_t row;       // of the input
    std::size_t position;
  };
  std::array<Query, kMaxQueryTile> queries = {};
  std::size_t n_queries = 0;
  /// Positions before this lie in the same pages for all queries; it begins an attention block.
  std::size_t shared_end = 0;
  std::size_t first_split = 0;
  std::size_t n_splits = 0;
  std::size_t first_record = 0;  // of n_queries * n_heads * n_splits, if splits are shared out
};

/// One KV head of a tile, over one of its splits or all of them, and whose work it is.
struct AttentionItem {
  std::size_t tile = 0;
  std::size_t kv_head = 0;
  std::size_t first_split = 0;
  std::size_t end_split = 0;
  std::size_t worker = 0;
};

struct AttentionPlan {
  std::vector<AttentionTile> tiles;
  std::vector<AttentionItem> items;
  /// Workers fold splits of the same rows: records are shared, and merged behind a barrier.
  bool share_splits = false;
  std::size_t n_records = 0;  // shared ones, or of the largest item
};

/// The cut depends on sequences, page tables and workers; no row's result depends on the cut.
void plan_attention(const ModelInput& input, const AttentionLayer& layer, std::size_t n_workers,
                    AttentionPlan& plan);

}  // namespace quire
