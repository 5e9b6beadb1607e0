#include "model/attention_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <span>

#include "base/check.h"

namespace quire {
namespace {

constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();

std::size_t oldest_visible(std::size_t position, std::size_t window) {
  return window != 0 && position + 1 > window ? position + 1 - window : 0;
}

/// A sequence with few tokens, next to which others fit into a tile.
struct Candidate {
  std::size_t sequence;
  std::size_t shared;  // leading positions in the pages of the leader, a multiple of a block
};

class Planner {
 public:
  Planner(const ModelInput& input, const AttentionLayer& layer, AttentionPlan& plan)
      : input_(input), layer_(layer), plan_(plan) {}

  void cut_into_tiles() {
    plan_.tiles.clear();
    std::vector<std::size_t> small;
    for (std::size_t s = 0; s < input_.sequences.size(); ++s) {
      // Layers with a window have few pages, and sequences leave them at different positions.
      // Without one the tables hold every position, so pages compare from the first.
      QUIRE_CHECK(layer_.window != 0 || table(s).first_page == 0);
      if (layer_.window == 0 && 2 * input_.sequences[s].n_tokens <= kMaxQueryTile)
        small.push_back(s);
      else
        add_alone(s);
    }
    // Whoever shares anything shares the first page.
    std::ranges::stable_sort(small, {}, [&](std::size_t s) { return table(s).pages.front(); });
    for (std::size_t begin = 0, end = 0; begin < small.size(); begin = end) {
      const std::byte* page = table(small[begin]).pages.front();
      while (end < small.size() && table(small[end]).pages.front() == page) ++end;
      add_siblings(std::span(small).subspan(begin, end - begin));
    }
  }

 private:
  const PageTableView& table(std::size_t sequence) const {
    return input_.tables[sequence * layer_.n_layers + layer_.index];
  }

  /// Whole blocks at the beginning of two sequences that lie in the same pages, in positions.
  std::size_t shared_positions(std::size_t a, std::size_t b) const {
    const PageTableView& x = table(a);
    const auto end = std::ranges::mismatch(x.pages, table(b).pages).in1;
    const auto n_pages = static_cast<std::size_t>(end - x.pages.begin());
    return n_pages * layer_.layout.page_size / kAttentionBlock * kAttentionBlock;
  }

  void add_alone(std::size_t sequence) {
    const SequenceSlice& slice = input_.sequences[sequence];
    for (std::size_t t = 0; t < slice.n_tokens; t += kMaxQueryTile) {
      AttentionTile tile{.shared_end = kEverything};
      append(tile, sequence, t, std::min(slice.n_tokens, t + kMaxQueryTile));
      finish(tile);
    }
  }

  /// Those that share most with the first come into tiles together.
  void add_siblings(std::span<const std::size_t> sequences) {
    std::vector<Candidate> siblings = {{sequences.front(), kEverything}};
    for (const std::size_t s : sequences.subspan(1))
      siblings.push_back({s, shared_positions(sequences.front(), s)});
    std::ranges::stable_sort(siblings, std::ranges::greater(), &Candidate::shared);
    AttentionTile tile{.shared_end = kEverything};
    for (const auto& [sequence, shared] : siblings) {
      const std::size_t n_tokens = input_.sequences[sequence].n_tokens;
      const bool joins = tile.n_queries + n_tokens <= kMaxQueryTile && shared != 0 &&
                         (tile.shared_end == kEverything || 2 * shared > tile.shared_end);
      if (!joins && tile.n_queries != 0) {
        finish(tile);
        tile = {.shared_end = kEverything};
      }
      if (tile.n_queries != 0) tile.shared_end = std::min(tile.shared_end, shared);
      append(tile, sequence, 0, n_tokens);
    }
    finish(tile);
  }

  void append(AttentionTile& tile, std::size_t sequence, std::size_t from, std::size_t to) const {
    const SequenceSlice& slice = input_.sequences[sequence];
    for (std::size_t t = from; t < to; ++t)
      tile.queries[tile.n_queries++] = {sequence, slice.first_row + t, slice.position + t};
  }

  void finish(AttentionTile& tile) {
    std::size_t first = kEverything;
    std::size_t last = 0;
    for (std::size_t i = 0; i < tile.n_queries; ++i) {
      const std::size_t position = tile.queries[i].position;
      first = std::min(first, oldest_visible(position, layer_.window) / kAttentionSplit);
      last = std::max(last, position / kAttentionSplit);
    }
    tile.first_split = first;
    tile.n_splits = last - first + 1;
    plan_.tiles.push_back(tile);
  }

  const ModelInput& input_;
  const AttentionLayer& layer_;
  AttentionPlan& plan_;
};

/// Positions that the queries of a tile see of [from, to).
std::size_t cost(const AttentionTile& tile, std::size_t window, std::size_t from, std::size_t to) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < tile.n_queries; ++i) {
    const std::size_t position = tile.queries[i].position;
    const std::size_t begin = std::max(from, oldest_visible(position, window));
    const std::size_t end = std::min(to, position + 1);
    sum += end > begin ? end - begin : 0;
  }
  return sum;
}

}  // namespace

void plan_attention(const ModelInput& input, const AttentionLayer& layer, std::size_t n_workers,
                    AttentionPlan& plan) {
  Planner(input, layer, plan).cut_into_tiles();

  std::size_t most_splits = 0;
  for (const AttentionTile& tile : plan.tiles) most_splits = std::max(most_splits, tile.n_splits);
  const std::size_t n_whole = plan.tiles.size() * layer.layout.n_kv_heads;
  plan.share_splits = n_workers > 1 && most_splits > 1 && n_whole < 4 * n_workers;

  plan.items.clear();
  plan.n_records = 0;
  std::vector<std::size_t> done;  // by item: the work of all before it
  std::size_t total = 0;
  for (std::size_t i = 0; i < plan.tiles.size(); ++i) {
    AttentionTile& tile = plan.tiles[i];
    const std::size_t n_records = tile.n_queries * layer.n_heads * tile.n_splits;
    tile.first_record = plan.n_records;
    plan.n_records = plan.share_splits
                         ? plan.n_records + n_records
                         : std::max(plan.n_records, n_records / layer.layout.n_kv_heads);
    const std::size_t end = tile.first_split + tile.n_splits;
    const std::size_t step = plan.share_splits ? 1 : tile.n_splits;
    for (std::size_t split = tile.first_split; split < end; split += step) {
      const std::size_t work =
          cost(tile, layer.window, split * kAttentionSplit, (split + step) * kAttentionSplit);
      for (std::size_t h = 0; h < layer.layout.n_kv_heads; ++h) {
        plan.items.push_back(
            {.tile = i, .kv_head = h, .first_split = split, .end_split = split + step});
        done.push_back(total);
        total += work;
      }
    }
  }
  done.push_back(total);
  // Neighbours stay together: heads of one split lie in the same pages. An item is for whoever its
  // middle falls to.
  for (std::size_t i = 0; i < plan.items.size(); ++i)
    plan.items[i].worker =
        std::min(n_workers - 1, (done[i] + done[i + 1]) * n_workers / (2 * total));
}

}  // namespace quire
