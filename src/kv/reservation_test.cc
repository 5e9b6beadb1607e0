// Who may outlive whom.

#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "kv/kv_manager.h"
#include "kv/kv_test_util.h"

namespace quire {
namespace {

using testing::append;
using testing::slot_has;
using testing::small_config;
using testing::write_slot;

class ReservationTest : public ::testing::Test {
 protected:
  Reservation reserve(KvManager& kv,
                      std::initializer_list<std::pair<SequenceId, std::size_t>> wanted) {
    std::vector<SlotRequest> requests;
    for (const auto& [sequence, n] : wanted) requests.push_back(testing::slots(sequence, n));
    return kv.reserve(requests).value();
  }

  KvManager kv_ = KvManager::create(small_config({0, 20}, 16)).value();
  SequenceId a_ = kv_.add_sequence();
  SequenceId b_ = kv_.add_sequence();
};

TEST_F(ReservationTest, DroppingGivesEverythingBack) {
  ASSERT_TRUE(append(kv_, a_, 5));
  const KvStats before = kv_.stats();
  {
    const Reservation reservation = reserve(kv_, {{a_, 30}, {b_, 1}});
    EXPECT_LT(kv_.stats().pages_free, before.pages_free);
    EXPECT_EQ(kv_.length(a_), 5u);
    EXPECT_TRUE(kv_.validate());
  }
  EXPECT_EQ(kv_.stats().pages_free, before.pages_free);
  EXPECT_EQ(kv_.stats().pages_hot, before.pages_hot);
  EXPECT_EQ(kv_.table(a_, 0).pages.size(), 1u);
  EXPECT_TRUE(kv_.table(b_, 0).pages.empty());
  EXPECT_TRUE(kv_.validate());
}

TEST_F(ReservationTest, AnEmptyOneIsHarmless) {
  reserve(kv_, {}).commit();
  reserve(kv_, {{a_, 0}}).commit();
  {
    const Reservation dropped = reserve(kv_, {{a_, 0}, {b_, 0}});
  }
  EXPECT_EQ(kv_.length(a_), 0u);
  EXPECT_EQ(kv_.stats().pages_free, 16u);
  EXPECT_TRUE(kv_.validate());
}

TEST_F(ReservationTest, ReleasedSequencesLeaveItTheRestCommits) {
  Reservation reservation = reserve(kv_, {{a_, 3}, {b_, 3}});
  write_slot(kv_, b_, 0, 9);
  kv_.release(a_);
  EXPECT_TRUE(kv_.validate()) << kv_.validate().error().message;
  EXPECT_EQ(kv_.stats().pages_hot, 2u);
  reservation.commit();
  EXPECT_EQ(kv_.length(b_), 3u);
  EXPECT_TRUE(slot_has(kv_, b_, 0, 0, 9));
  EXPECT_TRUE(kv_.validate());
}

TEST_F(ReservationTest, ItMayOutliveAllItsSequences) {
  for (const bool commit : {true, false}) {
    const SequenceId c = kv_.add_sequence();
    Reservation reservation = reserve(kv_, {{c, 40}});
    kv_.release(c);
    EXPECT_EQ(kv_.stats().pages_free, 16u);
    if (commit) reservation.commit();
    EXPECT_TRUE(kv_.validate());
  }
  EXPECT_TRUE(append(kv_, a_, 1));
}

// Both sharers of a tail write; one of them ends in the middle of the step.
TEST_F(ReservationTest, ReleasingASharerInTheMiddleKeepsTheOther) {
  for (const bool release_parent : {true, false})
    for (const bool commit : {true, false}) {
      KvManager kv = KvManager::create(small_config({0}, 4)).value();
      const SequenceId parent = kv.add_sequence();
      ASSERT_TRUE(append(kv, parent, 5, 0));
      const SequenceId child = kv.fork(parent).value();
      {
        Reservation reservation = reserve(kv, {{parent, 1}, {child, 1}});
        write_slot(kv, parent, 5, 100);
        write_slot(kv, child, 5, 200);
        kv.release(release_parent ? parent : child);
        EXPECT_TRUE(kv.validate()) << kv.validate().error().message;
        if (commit) reservation.commit();
      }
      EXPECT_TRUE(kv.validate()) << kv.validate().error().message;
      const SequenceId left = release_parent ? child : parent;
      EXPECT_EQ(kv.length(left), commit ? 6u : 5u);
      for (std::uint32_t i = 0; i < 5; ++i) EXPECT_TRUE(slot_has(kv, left, 0, i, i));
      if (commit) {
        EXPECT_TRUE(slot_has(kv, left, 0, 5, release_parent ? 200 : 100));
      }
      kv.release(left);
      EXPECT_EQ(kv.stats().pages_free, 4u);
    }
}

TEST_F(ReservationTest, TheManagerMayMove) {
  Reservation reservation = reserve(kv_, {{a_, 3}});
  KvManager moved = std::move(kv_);
  reservation.commit();
  EXPECT_EQ(moved.length(a_), 3u);
  Reservation dropped = reserve(moved, {{a_, 30}});
  kv_ = std::move(moved);
  {
    const Reservation end = std::move(dropped);
  }
  EXPECT_EQ(kv_.length(a_), 3u);
  EXPECT_EQ(kv_.stats().pages_hot, 2u);
  EXPECT_TRUE(kv_.validate());
}

TEST_F(ReservationTest, ItMayOutliveTheManager) {
  std::optional<Reservation> reservation = reserve(kv_, {{a_, 3}});
  kv_ = KvManager::create(small_config({0}, 4)).value();
  reservation.reset();
  EXPECT_EQ(kv_.stats().pages_free, 4u);
}

TEST_F(ReservationTest, AssigningGivesTheOldOneBack) {
  KvManager other = KvManager::create(small_config({0}, 4)).value();
  const SequenceId c = other.add_sequence();
  Reservation reservation = reserve(kv_, {{a_, 3}});
  reservation = reserve(other, {{c, 3}});
  EXPECT_EQ(kv_.stats().pages_free, 16u);
  EXPECT_TRUE(kv_.validate());
  reservation.commit();
  EXPECT_EQ(other.length(c), 3u);
}

TEST_F(ReservationTest, SequencesBeingWrittenCannotForkOrGoBack) {
  ASSERT_TRUE(append(kv_, a_, 5));
  Reservation reservation = reserve(kv_, {{a_, 3}});
  EXPECT_EQ(kv_.fork(a_).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(kv_.truncate(a_, 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(kv_.fork(b_).has_value());
  reservation.commit();
  EXPECT_TRUE(kv_.fork(a_).has_value());
  EXPECT_TRUE(kv_.validate());
}

// Window layers follow what was committed: pages that only the whole of it would have left stay.
TEST_F(ReservationTest, CommittingAPartIsAsIfOnlyThatHadBeenReserved) {
  for (std::size_t kept = 0; kept <= 50; ++kept) {
    KvManager kv = KvManager::create(small_config({0, 20, 1}, 32)).value();
    KvManager expected = KvManager::create(small_config({0, 20, 1}, 32)).value();
    const SequenceId a = kv.add_sequence();
    const SequenceId b = expected.add_sequence();
    ASSERT_TRUE(append(kv, a, 13));
    ASSERT_TRUE(append(expected, b, 13));
    Reservation reservation = reserve(kv, {{a, 50}});
    for (std::uint32_t i = 0; i < 50; ++i) write_slot(kv, a, 13 + i, 13 + i);
    reservation.commit({&kept, 1});
    ASSERT_TRUE(append(expected, b, kept, 13));
    EXPECT_TRUE(kv.validate()) << kv.validate().error().message;
    EXPECT_EQ(kv.length(a), 13 + kept);
    const KvStats stats = kv.stats();
    const KvStats wanted = expected.stats();
    EXPECT_EQ(stats.pages_hot, wanted.pages_hot) << kept;
    EXPECT_EQ(stats.pages_sealed, wanted.pages_sealed) << kept;
    for (std::size_t layer = 0; layer < 3; ++layer) {
      const PageTableView table = kv.table(a, layer);
      EXPECT_EQ(table.first_page, expected.table(b, layer).first_page);
      EXPECT_EQ(table.pages.size(), expected.table(b, layer).pages.size());
      for (std::size_t p = table.first_page * 16; p < 13 + kept; ++p)
        EXPECT_TRUE(slot_has(kv, a, layer, p, static_cast<std::uint32_t>(p)));
    }
  }
}

// Both sharers of a tail write; one keeps a part, the other nothing and goes back to the page.
TEST_F(ReservationTest, OneMayKeepNothingOfItsShare) {
  for (const bool parent_keeps : {true, false}) {
    KvManager kv = KvManager::create(small_config({0}, 8)).value();
    const SequenceId parent = kv.add_sequence();
    ASSERT_TRUE(append(kv, parent, 5, 0));
    const SequenceId child = kv.fork(parent).value();
    Reservation reservation = reserve(kv, {{parent, 20}, {child, 20}});
    for (std::uint32_t i = 0; i < 20; ++i) {
      write_slot(kv, parent, 5 + i, 100 + i);
      write_slot(kv, child, 5 + i, 200 + i);
    }
    const std::array<std::size_t, 2> kept = {parent_keeps ? 2u : 0u, parent_keeps ? 0u : 2u};
    reservation.commit(kept);
    EXPECT_TRUE(kv.validate()) << kv.validate().error().message;
    const SequenceId longer = parent_keeps ? parent : child;
    const SequenceId same = parent_keeps ? child : parent;
    EXPECT_EQ(kv.length(longer), 7u);
    EXPECT_EQ(kv.length(same), 5u);
    for (std::uint32_t i = 0; i < 5; ++i) {
      EXPECT_TRUE(slot_has(kv, longer, 0, i, i));
      EXPECT_TRUE(slot_has(kv, same, 0, i, i));
    }
    EXPECT_TRUE(slot_has(kv, longer, 0, 6, parent_keeps ? 101 : 201));
    // The next one to write must not touch what the other kept.
    ASSERT_TRUE(append(kv, same, 3, 300));
    EXPECT_TRUE(slot_has(kv, longer, 0, 5, parent_keeps ? 100 : 200));
    EXPECT_TRUE(slot_has(kv, same, 0, 5, 300));
    EXPECT_TRUE(kv.validate());
  }
}

TEST_F(ReservationTest, WhatWasReleasedIsNotCommittedInPartEither) {
  Reservation reservation = reserve(kv_, {{a_, 3}, {b_, 0}});
  kv_.release(a_);
  const std::array<std::size_t, 2> kept = {2, 0};
  reservation.commit(kept);
  EXPECT_EQ(kv_.length(b_), 0u);
  EXPECT_EQ(kv_.stats().pages_free, 16u);
  EXPECT_TRUE(kv_.validate());
}

using ReservationDeathTest = ReservationTest;

TEST_F(ReservationDeathTest, MisuseStops) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Reservation reservation = reserve(kv_, {{a_, 3}});
  EXPECT_DEATH(reserve(kv_, {{b_, 1}}), "check failed");
  const std::array<std::size_t, 2> kept = {4, 0};
  EXPECT_DEATH(reservation.commit({kept.data(), 1}), "check failed");  // more than reserved
  EXPECT_DEATH(reservation.commit(kept), "check failed");              // more than requested
  reservation.commit();
  EXPECT_DEATH(reservation.commit(), "check failed");
  EXPECT_DEATH(kv_.length(SequenceId(99)), "check failed");
  EXPECT_DEATH(kv_.table(a_, 2), "check failed");
}

}  // namespace
}  // namespace quire
