// Whatever the cut: every query is folded over every split it sees, once, over the pages of its own
// sequence.

#include "model/attention_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <memory>

namespace quire {
namespace {

constexpr std::size_t kPageSize = 16;

/// Sequences whose pages are invented addresses; some begin with pages of an earlier sequence.
struct Batch {
  struct Sequence {
    std::vector<std::byte*> pages;
    std::size_t n_tokens;
    std::size_t position;
  };
  std::vector<Sequence> sequences;
  std::vector<SequenceSlice> slices;
  std::vector<PageTableView> tables;
  std::vector<TokenId> tokens;
  std::unique_ptr<std::byte[]> addresses = std::make_unique<std::byte[]>(1 << 20);
  std::size_t n_addresses = 0;

  void add(std::size_t position, std::size_t n_tokens, std::size_t parent, std::size_t shared) {
    Sequence out{.pages = {}, .n_tokens = n_tokens, .position = position};
    const std::size_t n_pages = (position + n_tokens + kPageSize - 1) / kPageSize;
    for (std::size_t i = 0; i < n_pages; ++i) {
      const bool inherits = parent < sequences.size() && (i + 1) * kPageSize <= shared &&
                            i < sequences[parent].pages.size();
      out.pages.push_back(inherits ? sequences[parent].pages[i] : &addresses[n_addresses++]);
    }
    sequences.push_back(std::move(out));
  }

  ModelInput input() {
    for (const Sequence& each : sequences) {
      slices.push_back({tokens.size(), each.n_tokens, each.position});
      tokens.resize(tokens.size() + each.n_tokens);
      tables.push_back({.pages = each.pages, .first_page = 0});
    }
    return {.tokens = tokens, .sequences = slices, .tables = tables, .logit_rows = {}};
  }
};

AttentionLayer layer_of(std::size_t n_kv_heads, std::size_t window) {
  AttentionLayer layer;
  layer.n_heads = 3 * n_kv_heads;
  layer.window = window;
  layer.n_layers = 1;
  layer.layout.n_kv_heads = static_cast<std::uint32_t>(n_kv_heads);
  layer.layout.head_dim = 64;
  layer.layout.page_size = kPageSize;
  return layer;
}

/// What the plan must do, by its definition.
void check(const ModelInput& input, const Batch& batch, const AttentionLayer& layer,
           std::size_t n_workers) {
  AttentionPlan plan;
  plan_attention(input, layer, n_workers, plan);
  std::map<std::tuple<std::size_t, std::size_t, std::size_t>, int> done;  // row, kv head, split
  for (const AttentionItem& item : plan.items) {
    RC_ASSERT(item.worker < n_workers);
    const AttentionTile& tile = plan.tiles.at(item.tile);
    RC_ASSERT(tile.n_queries >= 1u && tile.n_queries <= kMaxQueryTile);
    RC_ASSERT(item.first_split >= tile.first_split);
    RC_ASSERT(item.end_split <= tile.first_split + tile.n_splits);
    RC_ASSERT(plan.share_splits || item.end_split - item.first_split == tile.n_splits);
    for (std::size_t i = 0; i < tile.n_queries; ++i)
      for (std::size_t split = item.first_split; split < item.end_split; ++split)
        ++done[{tile.queries[i].row, item.kv_head, split}];
  }
  for (const AttentionTile& tile : plan.tiles) {
    const auto& leader = batch.sequences[tile.queries[0].sequence].pages;
    for (std::size_t i = 0; i < tile.n_queries; ++i) {
      const auto& query = tile.queries[i];
      const Batch::Sequence& sequence = batch.sequences[query.sequence];
      RC_ASSERT(query.position ==
                sequence.position + query.row - input.sequences[query.sequence].first_row);
      // Up to where the walk is shared, the pages are those of the query's own sequence.
      for (std::size_t page = 0; page < sequence.pages.size(); ++page)
        if (page * kPageSize < tile.shared_end) RC_ASSERT(leader.at(page) == sequence.pages[page]);
    }
  }
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    for (std::size_t t = 0; t < batch.sequences[s].n_tokens; ++t) {
      const std::size_t position = batch.sequences[s].position + t;
      const std::size_t row = input.sequences[s].first_row + t;
      for (std::size_t h = 0; h < layer.layout.n_kv_heads; ++h)
        for (std::size_t split = 0; split * kAttentionSplit <= position; ++split) {
          const bool seen =
              layer.window == 0 || (split + 1) * kAttentionSplit + layer.window > position + 1;
          const auto found = done.find({row, h, split});
          const int times = found == done.end() ? 0 : found->second;
          RC_ASSERT(times == 1 || (times == 0 && !seen));
        }
    }
  }
}

TEST(AttentionPlan, FoldsEverySplitOfEveryRowOnce) {
  const bool held = rc::check([] {
    Batch batch;
    const auto n = *rc::gen::inRange<std::size_t>(1, 20);
    for (std::size_t s = 0; s < n; ++s) {
      const auto n_tokens = *rc::gen::element<std::size_t>(1, 1, 1, 2, 4, 5, 9, 40);
      const auto position = *rc::gen::inRange<std::size_t>(0, 2200);
      const auto parent = *rc::gen::inRange<std::size_t>(0, s + 1);
      // Pages that a sequence still writes are never shared.
      batch.add(position, n_tokens, parent,
                std::min(position, *rc::gen::inRange<std::size_t>(0, 2200)));
    }
    const ModelInput input = batch.input();
    const auto window = *rc::gen::element<std::size_t>(0, 0, 100, 600);
    check(input, batch, layer_of(*rc::gen::inRange<std::size_t>(1, 4), window),
          *rc::gen::inRange<std::size_t>(1, 9));
  });
  EXPECT_TRUE(held);
}

// Sixteen answers to one prompt are two walks over its pages, not sixteen.
TEST(AttentionPlan, ReadsACommonPromptOncePerTile) {
  Batch batch;
  batch.add(2000, 1, 99, 0);
  for (std::size_t i = 1; i < 16; ++i) batch.add(2000 + 10 * i, 1, 0, 2000);
  const ModelInput input = batch.input();
  AttentionPlan plan;
  plan_attention(input, layer_of(3, 0), 2, plan);
  ASSERT_EQ(plan.tiles.size(), 2u);
  for (const AttentionTile& tile : plan.tiles) {
    EXPECT_EQ(tile.n_queries, 8u);
    EXPECT_EQ(tile.shared_end, 2000u / kAttentionBlock * kAttentionBlock);
  }
}

TEST(AttentionPlan, KeepsStrangersApart) {
  Batch batch;
  for (std::size_t i = 0; i < 4; ++i) batch.add(1000, 1, 99, 0);
  batch.add(1000, 1, 0, 112);  // less than a block in common
  const ModelInput input = batch.input();
  AttentionPlan plan;
  plan_attention(input, layer_of(3, 0), 2, plan);
  EXPECT_EQ(plan.tiles.size(), 5u);
}

// The shares of two workers differ by less than the longest item.
TEST(AttentionPlan, SharesTheWorkOut) {
  Batch batch;
  batch.add(4300, 1, 99, 0);
  const ModelInput input = batch.input();
  AttentionPlan plan;
  plan_attention(input, layer_of(3, 0), 2, plan);
  ASSERT_TRUE(plan.share_splits);
  std::array<std::size_t, 2> loads{};
  for (const AttentionItem& item : plan.items)
    loads.at(item.worker) += std::min((item.first_split + 1) * kAttentionSplit, std::size_t{4301}) -
                             item.first_split * kAttentionSplit;
  EXPECT_EQ(loads[0] + loads[1], 3u * 4301);
  EXPECT_LE(std::max(loads[0], loads[1]) - std::min(loads[0], loads[1]), kAttentionSplit);
}

}  // namespace
}  // namespace quire
