// Prefixes found, adopted, pinned and reclaimed, with figures worked out by hand.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kv/kv_manager.h"
#include "kv/kv_test_util.h"

namespace quire {
namespace {

using testing::slot_has;
using testing::small_config;
using testing::write_slot;
using Tokens = std::vector<TokenId>;

/// n tokens; another `text` has others from the first on.
Tokens text_of(std::size_t n, TokenId text) {
  Tokens tokens(n);
  for (std::size_t i = 0; i < n; ++i) tokens[i] = text * 10000 + static_cast<TokenId>(i);
  return tokens;
}

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class PrefixCacheTest : public ::testing::Test {
 protected:
  void make(const std::vector<std::size_t>& windows, std::size_t n_pages) {
    kv_ = std::make_unique<KvManager>(KvManager::create(small_config(windows, n_pages)).value());
  }

  /// Slots hold their token as tag.
  Status append(SequenceId sequence, const Tokens& tokens) {
    const SlotRequest request{sequence, tokens};
    auto reservation = kv_->reserve({&request, 1});
    if (!reservation) return fail(reservation.error());
    for (std::size_t i = 0; i < tokens.size(); ++i)
      write_slot(*kv_, sequence, kv_->length(sequence) + i, static_cast<std::uint32_t>(tokens[i]));
    reservation->commit();
    EXPECT_TRUE(kv_->validate()) << kv_->validate().error().message;
    return {};
  }

  void expect_has(SequenceId sequence, const Tokens& tokens, std::size_t layer,
                  std::size_t from = 0) {
    for (std::size_t i = from; i < tokens.size(); ++i)
      EXPECT_TRUE(slot_has(*kv_, sequence, layer, i, static_cast<std::uint32_t>(tokens[i]))) << i;
  }

  /// Computes a text and ends.
  void run(const Tokens& tokens, const std::string& name_space = "a") {
    const SequenceId sequence = kv_->add_sequence(name_space);
    const std::size_t had = kv_->adopt_prefix(sequence, tokens, tokens.size());
    const Tokens rest(tokens.begin() + static_cast<std::ptrdiff_t>(had), tokens.end());
    const Status done = append(sequence, rest);
    EXPECT_TRUE(done) << done.error().message;
    kv_->release(sequence);
    EXPECT_TRUE(kv_->validate()) << kv_->validate().error().message;
  }

  std::size_t found(const Tokens& tokens, const std::string& name_space = "a") const {
    return kv_->match_prefix(name_space, tokens, tokens.size()).n_tokens;
  }

  std::unique_ptr<KvManager> kv_;
};

TEST_F(PrefixCacheTest, AdoptionTakesAndCopiesNothing) {
  make({0, 0}, 20);
  const SequenceId first = kv_->add_sequence("a");
  const Tokens text = text_of(40, 1);
  ASSERT_TRUE(append(first, text));
  const KvStats before = kv_->stats();
  const SequenceId second = kv_->add_sequence("a");
  EXPECT_EQ(kv_->adopt_prefix(second, text, 40), 32u);  // the third page is not full
  EXPECT_EQ(kv_->stats().pages_free, before.pages_free);
  for (const std::size_t layer : {0u, 1u})
    for (const std::size_t page : {0u, 1u})
      EXPECT_EQ(kv_->table(first, layer).pages[page], kv_->table(second, layer).pages[page]);
  EXPECT_TRUE(kv_->validate());
  const KvStats stats = kv_->stats();
  EXPECT_EQ(stats.prefix_queries, 1u);
  EXPECT_EQ(stats.prefix_query_tokens, 40u);
  EXPECT_EQ(stats.prefix_hit_tokens, 32u);
  EXPECT_EQ(stats.prefix_blocks, 2u);
}

TEST_F(PrefixCacheTest, PagesStayCachedAndCountAsAvailable) {
  make({0, 0}, 20);
  run(text_of(40, 1));
  KvStats stats = kv_->stats();
  EXPECT_EQ(stats.pages_cached, 4u);
  EXPECT_EQ(stats.pages_free, 16u);
  EXPECT_EQ(stats.pages_available, 20u);
  EXPECT_EQ(stats.pages_sealed, 0u);
  EXPECT_EQ(stats.bytes_used, 0u);
  const Tokens text = text_of(40, 1);
  const PrefixMatch match = kv_->match_prefix("a", text, 20);
  EXPECT_EQ(match.n_tokens, 20u);
  EXPECT_EQ(match.reclaimable_pages, 4u);
  const SequenceId sequence = kv_->add_sequence("a");
  EXPECT_EQ(kv_->adopt_prefix(sequence, text, 20), 20u);
  EXPECT_EQ(kv_->stats().pages_available, 16u);
  EXPECT_EQ(kv_->match_prefix("a", text, 20).reclaimable_pages, 0u);
  EXPECT_EQ(kv_->own_pages(sequence), 4u);
  kv_->release(sequence);
  EXPECT_EQ(kv_->flush_cache(), 4u);
  stats = kv_->stats();
  EXPECT_EQ(stats.pages_free, 20u);
  EXPECT_EQ(stats.prefix_blocks_evicted, 2u);
  EXPECT_EQ(stats.prefix_namespaces, 0u);
}

// Case B03: one goes on from the middle of another's block.
TEST_F(PrefixCacheTest, ABlockUsedInPartIsCopiedBeforeItIsWrittenTo) {
  make({0}, 20);
  const SequenceId first = kv_->add_sequence("a");
  const Tokens whole = text_of(48, 1);
  ASSERT_TRUE(append(first, whole));
  const SequenceId second = kv_->add_sequence("a");
  Tokens other = joined(Tokens(whole.begin(), whole.begin() + 21), text_of(20, 2));
  EXPECT_EQ(kv_->adopt_prefix(second, other, other.size() - 1), 21u);
  EXPECT_TRUE(kv_->shares_tail(second));
  EXPECT_EQ(kv_->table(second, 0).pages[1], kv_->table(first, 0).pages[1]);
  ASSERT_TRUE(append(second, text_of(20, 2)));
  EXPECT_NE(kv_->table(second, 0).pages[1], kv_->table(first, 0).pages[1]);
  expect_has(first, whole, 0);
  expect_has(second, other, 0);
  EXPECT_EQ(found(whole), 48u);
  EXPECT_EQ(found(other), 32u);
}

TEST_F(PrefixCacheTest, WhatTwoComputeAtOnceIsKeptOnce) {
  make({0, 20}, 40);
  const Tokens text = text_of(64, 1);
  const SequenceId a = kv_->add_sequence("a");
  const SequenceId b = kv_->add_sequence("a");
  ASSERT_TRUE(append(a, text));
  ASSERT_TRUE(append(b, text));
  EXPECT_EQ(kv_->stats().prefix_blocks, 4u);
  for (std::size_t page = 0; page < 4; ++page)
    EXPECT_EQ(kv_->table(a, 0).pages[page], kv_->table(b, 0).pages[page]);
  EXPECT_EQ(kv_->stats().pages_hot + kv_->stats().pages_sealed + kv_->stats().pages_cached, 8u);
  EXPECT_EQ(kv_->stats().pages_cached, 2u);  // 45 and on are visible: pages 2 and 3
}

TEST_F(PrefixCacheTest, TruncatedSequencesPublishWhatTheyBecome) {
  make({0}, 20);
  const SequenceId sequence = kv_->add_sequence("a");
  const Tokens text = text_of(40, 1);
  ASSERT_TRUE(append(sequence, text));
  ASSERT_TRUE(kv_->truncate(sequence, 20));
  ASSERT_TRUE(kv_->validate()) << kv_->validate().error().message;
  ASSERT_TRUE(append(sequence, text_of(20, 2)));
  const Tokens other = joined(Tokens(text.begin(), text.begin() + 20), text_of(20, 2));
  EXPECT_EQ(found(text), 32u);
  EXPECT_EQ(found(other), 32u);
  const SequenceId reader = kv_->add_sequence("a");
  EXPECT_EQ(kv_->adopt_prefix(reader, text, 32), 32u);
  expect_has(reader, Tokens(text.begin(), text.begin() + 32), 0);
}

TEST_F(PrefixCacheTest, OnlySequencesWithANamespaceShare) {
  make({0}, 20);
  const SequenceId alone = kv_->add_sequence();
  const Tokens text = text_of(32, 1);
  ASSERT_TRUE(append(alone, text));
  EXPECT_EQ(found(text), 0u);
  EXPECT_EQ(kv_->stats().prefix_blocks, 0u);
  run(text, "b");
  EXPECT_EQ(found(text), 0u);
  EXPECT_EQ(found(text, "b"), 32u);
  EXPECT_EQ(kv_->table(kv_->fork(alone).value(), 0).pages.size(), 2u);
}

TEST_F(PrefixCacheTest, ReserveReclaimsTheLeafThatIsWorthLeast) {
  make({0}, 8);
  run(text_of(48, 1));  // three blocks
  run(text_of(32, 2));
  run(text_of(48, 1));  // a hit: worth more than the second
  const SequenceId sequence = kv_->add_sequence("a");
  ASSERT_TRUE(append(sequence, text_of(4 * 16, 3)));  // 3 are free
  EXPECT_EQ(kv_->stats().prefix_blocks_evicted, 1u);
  EXPECT_EQ(found(text_of(48, 1)), 48u);
  EXPECT_EQ(found(text_of(32, 2)), 16u);  // its leaf went
  ASSERT_TRUE(append(sequence, text_of(2 * 16, 4)));
  EXPECT_EQ(found(text_of(32, 2)), 0u);
  EXPECT_EQ(found(text_of(48, 1)), 32u);
}

TEST_F(PrefixCacheTest, WhatIsDeepInAContextStaysLonger) {
  make({0}, 1000);
  run(text_of(12800, 1));
  for (TokenId text = 10; text < 40; ++text) run(text_of(16, text));  // later, but cheap
  const SequenceId sequence = kv_->add_sequence("a");
  ASSERT_TRUE(append(sequence, text_of((1000 - 800 - 30 + 20) * 16, 3)));
  EXPECT_EQ(kv_->stats().prefix_blocks_evicted, 20u);
  EXPECT_EQ(found(text_of(12800, 1)), 12800u);
  EXPECT_EQ(found(text_of(16, 10)), 0u);
  EXPECT_EQ(found(text_of(16, 39)), 16u);
}

TEST_F(PrefixCacheTest, WhatASequenceUsesIsNeverReclaimed) {
  make({0}, 6);
  run(text_of(64, 1));
  const SequenceId user = kv_->add_sequence("a");
  ASSERT_EQ(kv_->adopt_prefix(user, text_of(64, 1), 40), 40u);  // two blocks and a part
  const SequenceId other = kv_->add_sequence("a");
  ASSERT_TRUE(append(other, text_of(48, 2)));
  const Status refused = append(other, text_of(16, 3));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("1 pages"), std::string::npos);
  EXPECT_NE(refused.error().message.find("0 of 6"), std::string::npos);
  expect_has(user, text_of(40, 1), 0);
}

// Of a window of 20, a sequence of 100 tokens sees 81 and on: pages 5 and 6.
TEST_F(PrefixCacheTest, PagesBehindAWindowAreCachedAndGoFirst) {
  make({0, 20}, 14);
  const SequenceId sequence = kv_->add_sequence("a");
  ASSERT_TRUE(append(sequence, text_of(100, 1)));
  KvStats stats = kv_->stats();
  EXPECT_EQ(stats.pages_cached, 5u);
  EXPECT_EQ(stats.pages_free, 0u);
  EXPECT_EQ(stats.pages_available, 5u);
  // Two pages are needed: those of blocks 0 and 1 go. That of block 4 is worth more, since who goes
  // on from the last whole block, at 96, sees 77 and on.
  const SequenceId other = kv_->add_sequence("a");
  ASSERT_TRUE(append(other, text_of(16, 2)));
  EXPECT_EQ(found(text_of(100, 1)), 96u);
  EXPECT_EQ(found(text_of(70, 1)), 70u);
  EXPECT_EQ(found(text_of(50, 1)), 0u);  // 31 and on; before, 0 and on
  EXPECT_EQ(kv_->stats().prefix_blocks_evicted, 0u);
}

TEST_F(PrefixCacheTest, AdoptedTablesStartWhereTheNextTokenSees) {
  make({0, 20}, 14);
  const SequenceId sequence = kv_->add_sequence("a");
  ASSERT_TRUE(append(sequence, text_of(100, 1)));
  const SequenceId early = kv_->add_sequence("a");
  ASSERT_EQ(kv_->adopt_prefix(early, text_of(100, 1), 50), 50u);
  EXPECT_EQ(kv_->table(early, 1).first_page, 1u);  // 31 and on
  expect_has(early, text_of(50, 1), 1, 31);
  expect_has(early, text_of(50, 1), 0);
  EXPECT_TRUE(kv_->validate()) << kv_->validate().error().message;
}

TEST_F(PrefixCacheTest, PinsKeepWhatAHitOfTheirLengthNeeds) {
  make({0, 20}, 24);
  run(text_of(100, 1));
  const auto pin = kv_->pin_prefix("a", text_of(70, 1));
  ASSERT_TRUE(pin) << pin.error().message;
  EXPECT_EQ(pin->n_tokens, 64u);
  EXPECT_EQ(kv_->stats().pages_pinned, 4u + 2u);  // 45 and on: pages 2 and 3
  EXPECT_EQ(kv_->stats().pages_available, 24u - 6u);
  EXPECT_EQ(kv_->flush_cache(), 12u - 6u);
  EXPECT_EQ(found(text_of(100, 1)), 64u);
  EXPECT_TRUE(kv_->validate()) << kv_->validate().error().message;

  const auto refused = kv_->pin_prefix("a", text_of(16, 9));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
  run(text_of(70, 2));
  const auto too_much = kv_->pin_prefix("a", text_of(70, 2));
  EXPECT_TRUE(too_much) << "12 of 24 are half";
  run(text_of(16, 3));
  const auto beyond = kv_->pin_prefix("a", text_of(16, 3));
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, ErrorCode::kOutOfMemory);
  EXPECT_NE(beyond.error().message.find("14 of 24"), std::string::npos) << beyond.error().message;
  EXPECT_NE(beyond.error().message.find("12"), std::string::npos);

  EXPECT_TRUE(kv_->unpin(pin->id));
  EXPECT_FALSE(kv_->unpin(pin->id));
  EXPECT_TRUE(kv_->unpin(too_much->id));
  EXPECT_EQ(kv_->stats().pages_pinned, 0u);
  kv_->flush_cache();
  EXPECT_EQ(kv_->stats().pages_free, 24u);
  EXPECT_TRUE(kv_->validate()) << kv_->validate().error().message;
}

TEST_F(PrefixCacheTest, TwoPinsOfOnePrefixAreTwo) {
  make({0}, 20);
  run(text_of(48, 1));
  const auto a = kv_->pin_prefix("a", text_of(48, 1));
  const auto b = kv_->pin_prefix("a", text_of(32, 1));
  ASSERT_TRUE(a && b);
  EXPECT_EQ(kv_->stats().pages_pinned, 3u);
  ASSERT_TRUE(kv_->unpin(a->id));
  kv_->flush_cache();
  EXPECT_EQ(found(text_of(48, 1)), 32u);
  ASSERT_TRUE(kv_->unpin(b->id));
  EXPECT_EQ(kv_->flush_cache(), 2u);
}

TEST_F(PrefixCacheTest, NamespacesDoNotAccumulate) {
  make({0}, 4);
  for (int i = 0; i < 1000; ++i) {
    const SequenceId sequence = kv_->add_sequence("visitor " + std::to_string(i));
    ASSERT_TRUE(append(sequence, text_of(i % 2 == 0 ? 5 : 17, 1)));
    kv_->release(sequence);
    EXPECT_LE(kv_->stats().prefix_namespaces, 4u);
  }
  EXPECT_EQ(found(text_of(17, 1), "visitor 999"), 16u);
  EXPECT_EQ(found(text_of(17, 1), "visitor 1"), 0u);
}

// A layer of a window of one token has no page that another token needs.
TEST_F(PrefixCacheTest, NothingIsKeptWhereNothingIsNeeded) {
  make({1}, 4);
  run(text_of(40, 1));
  EXPECT_EQ(kv_->stats().prefix_blocks, 0u);
  EXPECT_EQ(kv_->stats().prefix_namespaces, 0u);
  EXPECT_EQ(kv_->stats().pages_free, 4u);
}

using PrefixCacheDeathTest = PrefixCacheTest;

TEST_F(PrefixCacheDeathTest, MisuseStops) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  make({0}, 8);
  const Tokens text = text_of(20, 1);
  const SequenceId alone = kv_->add_sequence();
  EXPECT_DEATH(kv_->adopt_prefix(alone, text, 19), "check failed");
  const SequenceId sequence = kv_->add_sequence("a");
  ASSERT_TRUE(append(sequence, text));
  EXPECT_DEATH(kv_->adopt_prefix(sequence, text, 19), "check failed");
  EXPECT_DEATH(kv_->adopt_prefix(SequenceId(99), text, 19), "check failed");
}

}  // namespace
}  // namespace quire
