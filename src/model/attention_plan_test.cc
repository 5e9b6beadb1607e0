// Whatever the cut: every query is folded over every position it sees, once, over the pages of its
// own sequence, into records of its own.

#include "model/attention_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

namespace quire {
namespace {

/// Sequences whose pages are invented addresses; some begin with pages of an earlier sequence.
struct Batch {
  struct Table {
    std::vector<std::byte*> pages;
    std::size_t first_page;
  };
  /// `windows`: of each layer.
  explicit Batch(std::size_t page_size = 16, std::vector<std::size_t> windows = {0})
      : page_size_(page_size), windows_(std::move(windows)) {}

  /// In layer l the pages before position shared[l] are those of `parent`, as far as it has them.
  void add(std::size_t position, std::size_t n_tokens, std::size_t parent = 0,
           const std::vector<std::size_t>& shared = {}) {
    const std::size_t n_pages = (position + n_tokens + page_size_ - 1) / page_size_;
    for (std::size_t l = 0; l < windows_.size(); ++l) {
      const std::size_t window = windows_[l];
      const bool drops = window != 0 && position + 1 > window;
      Table out{.pages = {}, .first_page = drops ? (position + 1 - window) / page_size_ : 0};
      for (std::size_t i = out.first_page; i < n_pages; ++i) {
        std::byte* page = nullptr;
        if (l < shared.size() && (i + 1) * page_size_ <= shared[l]) {
          const Table& from = held_.at(parent * windows_.size() + l);
          if (i >= from.first_page && i - from.first_page < from.pages.size())
            page = from.pages[i - from.first_page];
        }
        out.pages.push_back(page != nullptr ? page : &addresses_[n_addresses_++]);
      }
      held_.push_back(std::move(out));
    }
    slices_.push_back({tokens_.size(), n_tokens, position});
    tokens_.resize(tokens_.size() + n_tokens);
  }

  ModelInput input(std::vector<std::size_t> logit_rows = {}) {
    tables_.clear();
    for (const Table& each : held_)
      tables_.push_back({.pages = each.pages, .first_page = each.first_page});
    logit_rows_ = std::move(logit_rows);
    return {.tokens = tokens_, .sequences = slices_, .tables = tables_, .logit_rows = logit_rows_};
  }

  AttentionLayer layer(std::size_t index, std::size_t n_kv_heads) const {
    AttentionLayer out;
    out.n_heads = 3 * n_kv_heads;
    out.window = windows_.at(index);
    out.index = index;
    out.n_layers = windows_.size();
    out.layout.n_kv_heads = static_cast<std::uint32_t>(n_kv_heads);
    out.layout.head_dim = 64;
    out.layout.page_size = static_cast<std::uint32_t>(page_size_);
    return out;
  }

  std::size_t position(std::size_t sequence) const { return slices_.at(sequence).position; }
  std::size_t n_rows() const { return tokens_.size(); }

 private:
  std::size_t page_size_;
  std::vector<std::size_t> windows_;
  std::vector<Table> held_;  // [n_sequences, n_layers]
  std::vector<SequenceSlice> slices_;
  std::vector<PageTableView> tables_;
  std::vector<TokenId> tokens_;
  std::vector<std::size_t> logit_rows_;
  std::unique_ptr<std::byte[]> addresses_ = std::make_unique<std::byte[]>(1 << 20);
  std::size_t n_addresses_ = 0;
};

bool sees(std::size_t query, std::size_t position, std::size_t window) {
  return position <= query && (window == 0 || position + window > query);
}

const std::byte* page_at(const ModelInput& input, const AttentionLayer& layer, std::size_t sequence,
                         std::size_t position) {
  const PageTableView& table = input.tables[sequence * layer.n_layers + layer.index];
  const std::size_t page = position / layer.layout.page_size;
  RC_ASSERT(page >= table.first_page && page - table.first_page < table.pages.size());
  return table.pages[page - table.first_page];
}

/// Walks as attention does: all queries over the pages of the first up to shared_end, then each
/// over its own.
void check_positions(const ModelInput& input, const AttentionLayer& layer,
                     const AttentionPlan& plan) {
  const std::size_t n_heads = layer.layout.n_kv_heads;
  std::vector<std::vector<int>> times(input.tokens.size() * n_heads);  // [row, KV head][position]
  for (const SequenceSlice& slice : input.sequences)
    for (std::size_t i = 0; i < slice.n_tokens * n_heads; ++i)
      times[slice.first_row * n_heads + i].resize(slice.position + i / n_heads + 1);
  for (const AttentionItem& item : plan.items) {
    const AttentionTile& tile = plan.tiles.at(item.tile);
    const std::size_t end = item.end_split * kAttentionSplit;
    for (std::size_t i = 0; i < tile.n_queries; ++i) {
      const auto& query = tile.queries[i];
      const SequenceSlice& slice = input.sequences[query.sequence];
      RC_ASSERT(query.row - slice.first_row < slice.n_tokens);
      RC_ASSERT(query.position == slice.position + query.row - slice.first_row);
      for (std::size_t p = item.first_split * kAttentionSplit; p < end; ++p) {
        if (!sees(query.position, p, layer.window)) continue;
        const std::size_t reader = tile.queries[p < tile.shared_end ? 0 : i].sequence;
        RC_ASSERT(page_at(input, layer, reader, p) == page_at(input, layer, query.sequence, p));
        ++times.at(query.row * n_heads + item.kv_head).at(p);
      }
    }
  }
  for (const std::vector<int>& row : times)
    for (std::size_t p = 0; p < row.size(); ++p)
      RC_ASSERT(row[p] == (sees(row.size() - 1, p, layer.window) ? 1 : 0));
}

void check_tiles(const AttentionPlan& plan) {
  for (const AttentionTile& tile : plan.tiles) {
    RC_ASSERT(tile.n_queries >= 1u && tile.n_queries <= kMaxQueryTile);
    for (std::size_t i = 0; i < tile.n_queries; ++i)  // a walk continues at a block
      RC_ASSERT(tile.shared_end % kAttentionBlock == 0u ||
                tile.shared_end > tile.queries[i].position);
  }
}

/// Shared records belong to one tile each, and none is without; private ones suffice for the
/// largest item.
void check_records(const AttentionLayer& layer, const AttentionPlan& plan) {
  std::size_t largest = 0;
  for (const AttentionItem& item : plan.items)
    largest = std::max(largest, plan.tiles[item.tile].n_queries * layer.n_heads /
                                    layer.layout.n_kv_heads * (item.end_split - item.first_split));
  if (!plan.share_splits) {
    RC_ASSERT(plan.n_records == largest);
    return;
  }
  std::vector<char> taken(plan.n_records);
  for (const AttentionTile& tile : plan.tiles) {
    const std::size_t n = tile.n_queries * layer.n_heads * tile.n_splits;
    for (std::size_t r = tile.first_record; r < tile.first_record + n; ++r) {
      RC_ASSERT(r < plan.n_records);
      RC_ASSERT(!std::exchange(taken[r], true));
    }
  }
  RC_ASSERT(std::ranges::count(taken, true) == std::ssize(taken));
}

/// Items in order of tile, KV head and split; each is given to the first of the workers that have
/// the fewest positions so far.
void check_items(const AttentionLayer& layer, std::size_t n_workers, const AttentionPlan& plan) {
  std::vector<std::size_t> loads(n_workers);
  std::size_t total = 0;
  std::size_t largest = 0;
  std::size_t worker = 0;
  auto item = plan.items.begin();
  for (std::size_t t = 0; t < plan.tiles.size(); ++t) {
    const AttentionTile& tile = plan.tiles[t];
    std::vector<std::size_t> work(plan.share_splits ? tile.n_splits : 1);
    for (std::size_t i = 0; i < tile.n_queries; ++i)
      for (std::size_t p = 0; p <= tile.queries[i].position; ++p)
        if (sees(tile.queries[i].position, p, layer.window))
          ++work.at(plan.share_splits ? p / kAttentionSplit - tile.first_split : 0);
    for (std::size_t i = 0; i < work.size(); ++i) {
      for (std::size_t h = 0; h < layer.layout.n_kv_heads; ++h, ++item) {
        RC_ASSERT(item != plan.items.end());
        RC_ASSERT(item->tile == t);
        RC_ASSERT(item->kv_head == h);
        RC_ASSERT(item->first_split == tile.first_split + i);
        RC_ASSERT(item->end_split == item->first_split + (plan.share_splits ? 1 : tile.n_splits));
        RC_ASSERT(item->worker < n_workers);
        RC_ASSERT(item->worker >= worker);  // neighbours stay together
        worker = item->worker;
        loads[worker] += work[i];
        total += work[i];
        largest = std::max(largest, work[i]);
      }
    }
  }
  RC_ASSERT(item == plan.items.end());
  // At both ends of its share a worker has at most half an item more than its part.
  for (const std::size_t load : loads) RC_ASSERT(load * n_workers <= total + largest * n_workers);
}

/// What the inputs of a property have met, so that it cannot hold for want of cases.
struct Met {
  int shared_splits = 0, shared_splits_of_many = 0, private_splits = 0, shared_pages = 0;
  int dropped_pages = 0, later_layers = 0, cut_sequences = 0;

  void count(const ModelInput& input, const AttentionLayer& layer, const AttentionPlan& plan) {
    ++(plan.share_splits ? shared_splits : private_splits);
    shared_splits_of_many += plan.share_splits && plan.tiles.size() > 1;
    for (const AttentionTile& tile : plan.tiles)
      shared_pages += tile.queries[0].sequence != tile.queries[tile.n_queries - 1].sequence;
    for (std::size_t s = 0; s < input.sequences.size(); ++s) {
      const auto tables = input.tables.subspan(s * layer.n_layers, layer.n_layers);
      dropped_pages += tables[layer.index].first_page != 0;
      cut_sequences +=
          s > 0 && tables[layer.index].pages.data() ==
                       input.tables[(s - 1) * layer.n_layers + layer.index].pages.data();
    }
    later_layers += layer.index > 0;
  }
};

void check(const ModelInput& input, const AttentionLayer& layer, std::size_t n_workers, Met& met) {
  AttentionPlan plan;
  plan_attention(input, layer, n_workers, plan);
  met.count(input, layer, plan);
  check_tiles(plan);
  check_items(layer, n_workers, plan);
  check_positions(input, layer, plan);
  check_records(layer, plan);
}

TEST(AttentionPlan, FoldsEveryPositionOfEveryRowOnce) {
  Met met;
  const bool held = rc::check([&] {
    const auto page_size = *rc::gen::element<std::size_t>(16, 32, 64, 128);
    const auto windows = *rc::gen::container<std::vector<std::size_t>>(
        *rc::gen::inRange<std::size_t>(1, 4), rc::gen::element<std::size_t>(0, 0, 100, 600));
    Batch batch(page_size, windows);
    const auto n = *rc::gen::inRange<std::size_t>(1, 20);
    for (std::size_t s = 0; s < n; ++s) {
      const auto n_tokens = *rc::gen::element<std::size_t>(1, 1, 1, 2, 4, 5, 9, 40);
      const auto position = *rc::gen::inRange<std::size_t>(0, 2200);
      const auto parent = *rc::gen::inRange<std::size_t>(0, std::max<std::size_t>(s, 1));
      std::vector<std::size_t> shared;  // differs among layers, so that a wrong one shows
      // Pages that a sequence still writes are never shared.
      const std::size_t most = s == 0 ? 0 : std::min(position, batch.position(parent));
      for (std::size_t l = 0; l < windows.size(); ++l)
        shared.push_back(std::min(most, *rc::gen::inRange<std::size_t>(0, 2200)));
      batch.add(position, n_tokens, parent, shared);
    }
    std::vector<std::size_t> rows(batch.n_rows());
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    std::erase_if(rows, [](std::size_t) { return *rc::gen::element(true, false, false); });
    const auto layer = batch.layer(*rc::gen::inRange<std::size_t>(0, windows.size()),
                                   *rc::gen::inRange<std::size_t>(1, 4));
    const auto n_workers = *rc::gen::inRange<std::size_t>(1, 20);
    const ModelInput input = batch.input(rows);
    check(input, layer, n_workers, met);
    LogitRowsStorage storage;  // several slices of one sequence
    if (const auto narrowed = only_logit_rows(input, storage); narrowed && !rows.empty())
      check(*narrowed, layer, n_workers, met);
  });
  EXPECT_TRUE(held);
  for (const int times : {met.shared_splits, met.shared_splits_of_many, met.private_splits,
                          met.shared_pages, met.dropped_pages, met.later_layers, met.cut_sequences})
    EXPECT_GT(times, 0);
}

// A layer without a window never drops a page: the plan compares pages from position 0 on.
TEST(AttentionPlan, TakesNoTableThatLostPagesWithoutAWindow) {
  Batch batch(16, {100, 0});
  batch.add(1000, 1);
  ModelInput input = batch.input();
  AttentionPlan plan;
  AttentionLayer layer = batch.layer(0, 3);
  plan_attention(input, layer, 2, plan);
  plan_attention(input, batch.layer(1, 3), 2, plan);
  layer.window = 0;
  EXPECT_DEATH(plan_attention(input, layer, 2, plan), "check failed.*first_page == 0");
}

// Sixteen answers to one prompt are two walks over its pages, not sixteen.
TEST(AttentionPlan, ReadsACommonPromptOncePerTile) {
  for (const std::size_t page_size : {16, 32, 128}) {
    Batch batch(page_size, {0, 0});  // nothing in common in the first layer
    batch.add(2000, 1);
    for (std::size_t i = 1; i < 16; ++i) batch.add(2000 + 10 * i, 1, 0, {0, 2000});
    const ModelInput input = batch.input();
    AttentionPlan plan;
    plan_attention(input, batch.layer(0, 3), 2, plan);
    EXPECT_EQ(plan.tiles.size(), 16u);
    plan_attention(input, batch.layer(1, 3), 2, plan);
    ASSERT_EQ(plan.tiles.size(), 2u) << "page size " << page_size;
    for (const AttentionTile& tile : plan.tiles) {
      EXPECT_EQ(tile.n_queries, 8u);
      EXPECT_EQ(tile.shared_end, 2000u / kAttentionBlock * kAttentionBlock);
    }
  }
}

TEST(AttentionPlan, KeepsStrangersApart) {
  Batch batch;
  for (std::size_t i = 0; i < 4; ++i) batch.add(1000, 1);
  batch.add(1000, 1, 0, {112});  // less than a block in common
  const ModelInput input = batch.input();
  AttentionPlan plan;
  plan_attention(input, batch.layer(0, 3), 2, plan);
  EXPECT_EQ(plan.tiles.size(), 5u);
}

// The shares of two workers differ by less than the longest item.
TEST(AttentionPlan, SharesTheWorkOut) {
  Batch batch;
  batch.add(4300, 1);
  const ModelInput input = batch.input();
  AttentionPlan plan;
  plan_attention(input, batch.layer(0, 3), 2, plan);
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
