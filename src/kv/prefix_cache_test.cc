// Prefixes found, adopted and published, with figures worked out by hand.

#include <gtest/gtest.h>

#include <string>

#include "kv/prefix_cache_testing.h"

namespace quire {
namespace {

using testing::joined;
using testing::text_of;
using testing::Tokens;

using PrefixCacheTest = testing::PrefixCacheTest;

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
