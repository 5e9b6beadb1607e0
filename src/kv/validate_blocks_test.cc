// The rules about blocks, K11 to K15, broken on purpose in a snapshot.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kv/kv_arithmetic.h"
#include "kv/kv_state.h"
#include "kv/kv_test_util.h"
#include "kv/prefix_sharing.h"
#include "kv/validate.h"

namespace quire {
namespace {

/// Three layers with windows of 0, 20 and 1. Sequence 0 has 70 tokens: blocks 1 to 4 below root 0,
/// of which it sees 51 and on in layer 1, page 3 and the hot page 4. Sequence 1 shares nothing.
class ValidateBlocksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const KvConfig config = testing::small_config({0, 20, 1}, 40);
    kv_ = std::make_unique<KvState>(config, PagePool::create(kv_page_bytes(config), 40).value());
    kv_->sequences[SequenceId(0)].tables.resize(3);
    kv_->sequences[SequenceId(1)].tables.resize(3);
    SequencePrefix& prefix = kv_->find(SequenceId(0))->prefix;
    prefix.root = kv_->blocks.open_namespace("a");
    kv_->blocks.use(prefix.root);
    std::vector<TokenId> tokens(70);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i);
    append({SequenceId(0), tokens});
    append(testing::slots(SequenceId(1), 5));
    snapshot_ = take_snapshot(*kv_);
    for (std::size_t i = 0; i < 2; ++i)
      if (snapshot_.sequences[i].id == 0) shares_ = i;
  }

  void append(const SlotRequest& request) {
    ASSERT_TRUE(take_slots(*kv_, {&request, 1}));
    commit_slots(*kv_, *kv_->find(request.sequence), request.tokens.size());
  }

  /// As it is once sequence 0 is gone.
  KvSnapshot idle() {
    SequenceState& gone = *kv_->find(SequenceId(0));
    for (std::size_t layer = 0; layer < 3; ++layer)
      for (const PageId page : gone.tables[layer].ids()) kv_->blocks.drop_page(page, layer);
    shorten_chain(*kv_, gone, 0);
    kv_->blocks.unuse(gone.prefix.root);
    kv_->sequences.erase(SequenceId(0));
    return take_snapshot(*kv_);
  }

  using Damage = std::function<void(KvSnapshot&)>;
  void expect_rule(int rule, const Damage& damage) { expect_rule(rule, snapshot_, damage); }
  static void expect_rule(int rule, const KvSnapshot& good, const Damage& damage) {
    ASSERT_TRUE(check_invariants(good)) << check_invariants(good).error().message;
    KvSnapshot bad = good;
    damage(bad);
    const Status status = check_invariants(bad);
    ASSERT_FALSE(status.has_value()) << "rule K" << rule << " noticed nothing";
    EXPECT_EQ(status.error().message.substr(0, status.error().message.find(':')),
              "KV rule K" + std::to_string(rule))
        << status.error().message;
  }

  static BlockSnapshot& block(KvSnapshot& kv, std::uint32_t id) {
    for (BlockSnapshot& each : kv.blocks)
      if (each.id == BlockId(id)) return each;
    std::abort();
  }
  SequenceSnapshot& shares(KvSnapshot& kv) const { return kv.sequences[shares_]; }
  static PagePool::Page& page(KvSnapshot& kv, std::uint32_t id, std::size_t layer) {
    return kv.pages[block(kv, id).pages[layer].value];
  }

  std::unique_ptr<KvState> kv_;
  KvSnapshot snapshot_;
  std::size_t shares_ = 0;
};

TEST_F(ValidateBlocksTest, K3BlocksAreCountedAsReferences) {
  expect_rule(3, [](KvSnapshot& kv) { --page(kv, 1, 0).references; });
  expect_rule(3, [](KvSnapshot& kv) { block(kv, 4).pages[0] = kNoPage; });
  expect_rule(4, [](KvSnapshot& kv) { std::swap(block(kv, 1).pages[0], block(kv, 2).pages[0]); });
}

TEST_F(ValidateBlocksTest, K11ABlockHasOnePlace) {
  expect_rule(11, [](KvSnapshot& kv) { block(kv, 2).found_as = kNoBlock; });
  expect_rule(11, [](KvSnapshot& kv) { block(kv, 2).found_as = BlockId(3); });
  expect_rule(11, [](KvSnapshot& kv) { block(kv, 2).tokens.pop_back(); });
  expect_rule(11, [](KvSnapshot& kv) { block(kv, 4).parent = BlockId(77); });
  expect_rule(11, [](KvSnapshot& kv) { block(kv, 4).parent = BlockId(2); });
}

TEST_F(ValidateBlocksTest, K12PagesKnowTheirBlock) {
  expect_rule(12, [](KvSnapshot& kv) { page(kv, 1, 0).block = BlockId(2); });
  expect_rule(12, [](KvSnapshot& kv) { page(kv, 1, 0).block = kNoBlock; });
  expect_rule(12, [this](KvSnapshot& kv) {
    kv.pages[shares(kv).tables[0].pages.back().value].block = BlockId(4);
  });
  expect_rule(12, [](KvSnapshot& kv) {  // only its block refers to it, and it is not cached
    page(kv, 1, 1).state = PageState::kSealed;
    --kv.pages_cached, ++kv.pages_sealed;
  });
  expect_rule(12, [](KvSnapshot& kv) {  // a table has it, and it is cached
    page(kv, 1, 0).state = PageState::kCached;
    ++kv.pages_cached, --kv.pages_sealed;
  });
}

TEST_F(ValidateBlocksTest, K13ChainsHaveTheTokensAndThePages) {
  expect_rule(13, [this](KvSnapshot& kv) { shares(kv).tokens[20] = 7; });
  expect_rule(13, [this](KvSnapshot& kv) { shares(kv).tokens.pop_back(); });
  expect_rule(13, [this](KvSnapshot& kv) { shares(kv).chain.pop_back(); });
  expect_rule(13, [this](KvSnapshot& kv) { shares(kv).chain[1] = BlockId(3); });
  expect_rule(13, [this](KvSnapshot& kv) { shares(kv).root = BlockId(1); });
  expect_rule(13, [this](KvSnapshot& kv) { shares(kv).root = kNoBlock; });
  expect_rule(13, [this](KvSnapshot& kv) {  // its page is a copy that the block does not have
    TableSnapshot& table = shares(kv).tables[0];
    kv.pages[table.pages[2].value].references = 1;
    kv.pages[table.pages[2].value].state = PageState::kCached;
    const auto copy = PageId(static_cast<std::uint32_t>(kv.pages.size()));
    kv.pages.push_back({.state = PageState::kSealed, .references = 1});
    table.pages[2] = copy;
    table.addresses[2] = kv.arena + copy.value * kv.page_bytes;
    ++kv.pages_cached, --kv.pages_free;
  });
}

TEST_F(ValidateBlocksTest, K14UsersNeedsAndPinsAreCounted) {
  expect_rule(14, [](KvSnapshot& kv) { ++block(kv, 1).users; });
  expect_rule(14, [](KvSnapshot& kv) { --block(kv, 0).users; });
  expect_rule(14, [](KvSnapshot& kv) { ++block(kv, 1).body_pins; });
  expect_rule(14, [](KvSnapshot& kv) { ++block(kv, 1).window_pins; });
  expect_rule(14, [](KvSnapshot& kv) { ++block(kv, 1).window_needs; });
  expect_rule(14, [this](KvSnapshot& kv) { ++shares(kv).first_needed; });
  expect_rule(14, [](KvSnapshot& kv) { page(kv, 1, 0).pinned = true; });
  expect_rule(14, [](KvSnapshot& kv) { kv.pins.push_back({BlockId(2), 9}); });
  expect_rule(14, [](KvSnapshot& kv) { kv.pins.push_back({BlockId(99), 9}); });
  expect_rule(14, [](KvSnapshot& kv) { ++kv.pages_pinned; });
}

TEST_F(ValidateBlocksTest, K15WhatCanBeReclaimedIsQueuedAndNothingElse) {
  expect_rule(15, [](KvSnapshot& kv) { block(kv, 4).body_queued = true; });
  expect_rule(15, [](KvSnapshot& kv) { block(kv, 1).window_queued = false; });
  expect_rule(15, [](KvSnapshot& kv) { block(kv, 4).window_queued = true; });
  expect_rule(15, [](KvSnapshot& kv) { ++kv.n_queued; });
  expect_rule(15, [](KvSnapshot& kv) { kv.blocks.emplace_back().id = BlockId(50); });
  const KvSnapshot at_rest = idle();
  expect_rule(15, at_rest, [](KvSnapshot& kv) { block(kv, 4).body_queued = false; });
  expect_rule(15, at_rest, [](KvSnapshot& kv) { block(kv, 3).body_queued = true; });
  expect_rule(15, at_rest, [](KvSnapshot& kv) {  // a leaf no hit can end in
    PageId& lost = block(kv, 4).pages[1];
    kv.pages[lost.value] = {};
    kv.free_list.push_back(lost);
    --kv.pages_cached, ++kv.pages_free;
    lost = kNoPage;
  });
}

}  // namespace
}  // namespace quire
