// Which cached pages go when, and which stay because they are pinned.

#include <gtest/gtest.h>

#include <string>

#include "kv/prefix_cache_testing.h"

namespace quire {
namespace {

using testing::text_of;

using PrefixReclaimTest = testing::PrefixCacheTest;

TEST_F(PrefixReclaimTest, ReserveReclaimsTheLeafThatIsWorthLeast) {
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

TEST_F(PrefixReclaimTest, WhatIsDeepInAContextStaysLonger) {
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

TEST_F(PrefixReclaimTest, WhatASequenceUsesIsNeverReclaimed) {
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
TEST_F(PrefixReclaimTest, PagesBehindAWindowAreCachedAndGoFirst) {
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

TEST_F(PrefixReclaimTest, PinsKeepWhatAHitOfTheirLengthNeeds) {
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

TEST_F(PrefixReclaimTest, TwoPinsOfOnePrefixAreTwo) {
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

TEST_F(PrefixReclaimTest, NamespacesDoNotAccumulate) {
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

}  // namespace
}  // namespace quire
