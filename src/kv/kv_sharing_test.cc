// Forks, copies on write, and going back.

#include <gtest/gtest.h>

#include <array>

#include "kv/kv_manager.h"
#include "kv/kv_test_util.h"

namespace quire {
namespace {

using testing::append;
using testing::slot_has;
using testing::small_config;
using testing::write_slot;

TEST(KvSharing, AForkSharesEveryPage) {
  KvManager kv = KvManager::create(small_config({0, 20}, 12)).value();
  const SequenceId parent = kv.add_sequence();
  ASSERT_TRUE(append(kv, parent, 40));
  const KvStats before = kv.stats();
  const SequenceId child = kv.fork(parent).value();
  EXPECT_EQ(kv.length(child), 40u);
  EXPECT_EQ(kv.stats().pages_free, before.pages_free);
  for (std::size_t layer : {0u, 1u}) {
    const PageTableView a = kv.table(parent, layer);
    const PageTableView b = kv.table(child, layer);
    EXPECT_EQ(a.first_page, b.first_page);
    EXPECT_TRUE(std::equal(a.pages.begin(), a.pages.end(), b.pages.begin(), b.pages.end()));
  }
  EXPECT_TRUE(kv.validate());
}

TEST(KvSharing, TheFirstWriterCopiesTheSharedTail) {
  for (const bool parent_writes : {true, false}) {
    KvManager kv = KvManager::create(small_config({0}, 4)).value();
    const SequenceId parent = kv.add_sequence();
    ASSERT_TRUE(append(kv, parent, 20, 0));
    const SequenceId child = kv.fork(parent).value();
    const SequenceId writer = parent_writes ? parent : child;
    const SequenceId other = parent_writes ? child : parent;
    std::byte* shared = kv.table(other, 0).pages[1];
    ASSERT_TRUE(append(kv, writer, 1, 100));
    EXPECT_NE(kv.table(writer, 0).pages[1], shared);
    EXPECT_EQ(kv.table(other, 0).pages[1], shared);
    EXPECT_EQ(kv.stats().pages_free, 1u);
    // The other is alone with the old page now and writes in place.
    ASSERT_TRUE(append(kv, other, 1, 200));
    EXPECT_EQ(kv.table(other, 0).pages[1], shared);
    EXPECT_EQ(kv.stats().pages_free, 1u);
    for (std::uint32_t i = 0; i < 20; ++i) {
      EXPECT_TRUE(slot_has(kv, parent, 0, i, i));
      EXPECT_TRUE(slot_has(kv, child, 0, i, i));
    }
    EXPECT_TRUE(slot_has(kv, writer, 0, 20, 100));
    EXPECT_TRUE(slot_has(kv, other, 0, 20, 200));
    EXPECT_TRUE(kv.validate());
  }
}

TEST(KvSharing, TheCopyCountsAsAPageNeeded) {
  KvManager kv = KvManager::create(small_config({0, 0}, 3)).value();
  const SequenceId parent = kv.add_sequence();
  ASSERT_TRUE(append(kv, parent, 5));
  const SequenceId child = kv.fork(parent).value();
  const Status refused = append(kv, child, 1);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("2 pages"), std::string::npos);
  EXPECT_NE(refused.error().message.find("1 of 3"), std::string::npos);
  // Alone again, the parent needs nothing.
  kv.release(child);
  EXPECT_TRUE(append(kv, parent, 1));
}

// Parallel sampling of four: three copies are enough, the fourth stays.
TEST(KvSharing, WhenAllSharersWriteOneStaysInPlace) {
  KvManager kv = KvManager::create(small_config({0}, 4)).value();
  std::array<SequenceId, 4> branch;
  branch[0] = kv.add_sequence();
  ASSERT_TRUE(append(kv, branch[0], 5, 0));
  for (std::size_t i = 1; i < 4; ++i) branch[i] = kv.fork(branch[0]).value();
  std::array<SlotRequest, 4> requests;
  for (std::size_t i = 0; i < 4; ++i) requests[i] = testing::slots(branch[i], 1);
  for (const bool commit : {false, true}) {
    auto reservation = kv.reserve(requests);
    ASSERT_TRUE(reservation.has_value()) << reservation.error().message;
    EXPECT_EQ(kv.stats().pages_free, 0u);
    for (std::uint32_t i = 0; i < 4; ++i) write_slot(kv, branch[i], 5, 100 + i);
    EXPECT_TRUE(kv.validate()) << kv.validate().error().message;
    if (commit) reservation->commit();
  }
  for (std::uint32_t i = 0; i < 4; ++i) {
    for (std::uint32_t p = 0; p < 5; ++p) EXPECT_TRUE(slot_has(kv, branch[i], 0, p, p));
    EXPECT_TRUE(slot_has(kv, branch[i], 0, 5, 100 + i));
  }
  EXPECT_TRUE(kv.validate());
}

// The one who stays must be the longest: were it the shorter one, a rollback would leave the longer
// one with overwritten slots.
TEST(KvSharing, ARolledBackWriteInPlaceHurtsNoSharer) {
  for (const bool short_first : {true, false}) {
    KvManager kv = KvManager::create(small_config({0}, 8)).value();
    const SequenceId longer = kv.add_sequence();
    ASSERT_TRUE(append(kv, longer, 10, 0));
    const SequenceId shorter = kv.fork(longer).value();
    ASSERT_TRUE(kv.truncate(shorter, 4));
    std::array requests = {testing::slots(longer, 6), testing::slots(shorter, 6)};
    if (short_first) std::swap(requests[0], requests[1]);
    {
      auto reservation = kv.reserve(requests);
      ASSERT_TRUE(reservation.has_value());
      for (std::uint32_t i = 0; i < 6; ++i) {
        write_slot(kv, longer, 10 + i, 500 + i);
        write_slot(kv, shorter, 4 + i, 600 + i);
      }
      EXPECT_TRUE(kv.validate()) << kv.validate().error().message;
    }
    for (std::uint32_t i = 0; i < 10; ++i) EXPECT_TRUE(slot_has(kv, longer, 0, i, i)) << i;
    for (std::uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(slot_has(kv, shorter, 0, i, i)) << i;
    EXPECT_EQ(kv.table(longer, 0).pages[0], kv.table(shorter, 0).pages[0]);
    EXPECT_TRUE(kv.validate());
  }
}

TEST(KvSharing, TruncatingIntoASharedSealedPageLeavesTheOtherAlone) {
  KvManager kv = KvManager::create(small_config({0}, 6)).value();
  const SequenceId parent = kv.add_sequence();
  ASSERT_TRUE(append(kv, parent, 40, 0));
  const SequenceId child = kv.fork(parent).value();
  ASSERT_TRUE(kv.truncate(child, 20));
  EXPECT_EQ(kv.length(child), 20u);
  EXPECT_TRUE(kv.validate());
  ASSERT_TRUE(append(kv, child, 10, 700));
  for (std::uint32_t i = 0; i < 40; ++i) EXPECT_TRUE(slot_has(kv, parent, 0, i, i)) << i;
  for (std::uint32_t i = 0; i < 20; ++i) EXPECT_TRUE(slot_has(kv, child, 0, i, i)) << i;
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_TRUE(slot_has(kv, child, 0, 20 + i, 700 + i)) << i;
  EXPECT_TRUE(kv.validate());
}

// An unshared sealed page has no name anyone could know it by, so it may be written again.
TEST(KvSharing, TruncatingIntoAnUnsharedSealedPageNeedsNoMemory) {
  KvManager kv = KvManager::create(small_config({0}, 2)).value();
  const SequenceId sequence = kv.add_sequence();
  ASSERT_TRUE(append(kv, sequence, 32, 0));
  ASSERT_TRUE(kv.truncate(sequence, 10));
  EXPECT_EQ(kv.stats().pages_free, 1u);
  const KvStats before = kv.stats();
  {
    const SlotRequest request = testing::slots(sequence, 2);
    auto dropped = kv.reserve({&request, 1});
    ASSERT_TRUE(dropped.has_value());
    EXPECT_EQ(kv.stats().pages_hot, 1u);
  }
  EXPECT_EQ(kv.stats().pages_sealed, before.pages_sealed);
  ASSERT_TRUE(append(kv, sequence, 6, 50));
  EXPECT_EQ(kv.stats().pages_sealed, 1u);
  for (std::uint32_t i = 0; i < 16; ++i)
    EXPECT_TRUE(slot_has(kv, sequence, 0, i, i < 10 ? i : 40 + i)) << i;
  EXPECT_TRUE(kv.validate());
}

TEST(KvSharing, TruncatingBehindAWindowIsRefusedByName) {
  KvManager kv = KvManager::create(small_config({0, 20}, 20)).value();
  const SequenceId sequence = kv.add_sequence();
  ASSERT_TRUE(append(kv, sequence, 70, 0));
  // At 70 the next token sees 51 and on: pages 0 to 2 are gone. After truncating to 60 it would see
  // 41 and on.
  const Status refused = kv.truncate(sequence, 60);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("layer 1"), std::string::npos);
  EXPECT_NE(refused.error().message.find("41 to 47"), std::string::npos);
  EXPECT_EQ(kv.length(sequence), 70u);
  EXPECT_TRUE(kv.validate());
  // 67 sees 48 and on, which page 3 still has.
  EXPECT_TRUE(kv.truncate(sequence, 67));
  EXPECT_TRUE(kv.validate());
  EXPECT_FALSE(kv.truncate(sequence, 5));
  // From the start nothing is seen, so nothing is missing.
  EXPECT_TRUE(kv.truncate(sequence, 0));
  EXPECT_EQ(kv.stats().pages_free, 20u);
  EXPECT_TRUE(kv.validate());
  ASSERT_TRUE(append(kv, sequence, 17, 0));
  EXPECT_TRUE(slot_has(kv, sequence, 1, 16, 16));
  EXPECT_TRUE(kv.validate());
}

TEST(KvSharing, TruncatingForwardIsRefused) {
  KvManager kv = KvManager::create(small_config({0}, 4)).value();
  const SequenceId sequence = kv.add_sequence();
  ASSERT_TRUE(append(kv, sequence, 3));
  const Status refused = kv.truncate(sequence, 4);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(kv.truncate(sequence, 3));
}

// A window of one: a token sees only itself, so any page may be missing.
TEST(KvSharing, AWindowOfOneTokenGoesBackAnywhere) {
  KvManager kv = KvManager::create(small_config({1}, 4)).value();
  const SequenceId sequence = kv.add_sequence();
  ASSERT_TRUE(append(kv, sequence, 40));
  for (const std::size_t length : {37u, 20u, 16u, 5u, 0u}) {
    ASSERT_TRUE(kv.truncate(sequence, length)) << length;
    EXPECT_TRUE(kv.validate()) << kv.validate().error().message;
    const SlotRequest request = testing::slots(sequence, 3);
    {
      auto dropped = kv.reserve({&request, 1});
    }
    EXPECT_TRUE(kv.validate()) << kv.validate().error().message;
    ASSERT_TRUE(append(kv, sequence, 1));
    EXPECT_TRUE(kv.validate()) << kv.validate().error().message;
  }
}

}  // namespace
}  // namespace quire
