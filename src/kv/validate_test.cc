// Every rule of docs/kv-contract.md, broken on purpose in a snapshot of a busy manager.

#include "kv/validate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>

#include "kv/kv_arithmetic.h"
#include "kv/kv_state.h"
#include "kv/kv_test_util.h"

namespace quire {
namespace {

/// Two layers, the second with a window of 20. Sequence 0 has 40 tokens, sequence 1 is its fork
/// truncated to 38, sequence 2 has 5. With a reservation sequences 0 and 2 take 10 more each.
class ValidateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const KvConfig config = testing::small_config({0, 20}, 32);
    kv_ = std::make_unique<KvState>(config, PagePool::create(kv_page_bytes(config), 32).value());
    for (std::uint32_t i : {0u, 2u, 3u}) kv_->sequences[SequenceId(i)].tables.resize(2);
    append(0, 40);
    append(2, 5);
    append(3, 17);
    for (const PageTable& table : kv_->find(SequenceId(3))->tables)
      for (const PageId page : table.ids()) kv_->pool.drop_reference(page);
    kv_->sequences.erase(SequenceId(3));  // so that the free list has something
    SequenceState& parent = *kv_->find(SequenceId(0));
    SequenceState& child = kv_->sequences[SequenceId(1)];
    child.tables = parent.tables;
    child.length = 38;
    for (const PageTable& table : child.tables)
      for (const PageId page : table.ids()) kv_->pool.add_reference(page);
  }

  void append(std::uint32_t id, std::size_t n) {
    const SlotRequest request = testing::slots(SequenceId(id), n);
    ASSERT_TRUE(take_slots(*kv_, {&request, 1}));
    commit_slots(*kv_, *kv_->find(SequenceId(id)), n);
  }

  KvSnapshot at_rest() const { return sorted(take_snapshot(*kv_)); }

  KvSnapshot reserved() {
    const std::array requests = {testing::slots(SequenceId(0), 10),
                                 testing::slots(SequenceId(2), 10)};
    live_.sequences = take_slots(*kv_, requests).value();
    kv_->live = &live_;
    return sorted(take_snapshot(*kv_));
  }

  static KvSnapshot sorted(KvSnapshot snapshot) {
    std::sort(snapshot.sequences.begin(), snapshot.sequences.end(),
              [](const auto& a, const auto& b) { return a.id < b.id; });
    return snapshot;
  }

  using Damage = std::function<void(KvSnapshot&)>;
  static void expect_rule(int rule, const KvSnapshot& good, const Damage& damage) {
    ASSERT_TRUE(check_invariants(good)) << check_invariants(good).error().message;
    KvSnapshot bad = good;
    damage(bad);
    const Status status = check_invariants(bad);
    ASSERT_FALSE(status.has_value()) << "rule K" << rule << " noticed nothing";
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidData);
    EXPECT_EQ(status.error().message.substr(0, status.error().message.find(':')),
              "KV rule K" + std::to_string(rule))
        << status.error().message;
  }

  LiveReservation live_;
  std::unique_ptr<KvState> kv_;
};

TEST_F(ValidateTest, K1PagesAddUp) {
  expect_rule(1, at_rest(), [](KvSnapshot& kv) { ++kv.pages_free; });
  expect_rule(1, at_rest(), [](KvSnapshot& kv) { ++kv.pages_hot, --kv.pages_sealed; });
  expect_rule(1, at_rest(), [](KvSnapshot& kv) { kv.pages_total = 3; });
}

TEST_F(ValidateTest, K2TheFreeListIsExactlyTheFreePages) {
  expect_rule(2, at_rest(), [](KvSnapshot& kv) { kv.free_list.pop_back(); });
  expect_rule(2, at_rest(), [](KvSnapshot& kv) { kv.free_list[1] = kv.free_list[0]; });
  expect_rule(2, at_rest(), [](KvSnapshot& kv) { kv.free_list[0] = PageId(1000); });
  expect_rule(2, at_rest(),
              [](KvSnapshot& kv) { kv.free_list.push_back(kv.sequences[0].tables[0].pages[0]); });
}

TEST_F(ValidateTest, K3ReferencesAreCounted) {
  const auto page = [](KvSnapshot& kv) -> PagePool::Page& {
    return kv.pages[kv.sequences[0].tables[0].pages[0].value];
  };
  expect_rule(3, at_rest(), [&](KvSnapshot& kv) { ++page(kv).references; });
  expect_rule(3, at_rest(), [&](KvSnapshot& kv) { --page(kv).references; });
  expect_rule(3, at_rest(), [&](KvSnapshot& kv) { ++kv.pages[kv.free_list[0].value].references; });
  expect_rule(3, at_rest(), [](KvSnapshot& kv) {  // a table keeps a page that went back
    kv.sequences[2].tables[0].pages[0] = kv.free_list[0];
  });
}

TEST_F(ValidateTest, K4APageHasOnePlace) {
  expect_rule(4, at_rest(), [](KvSnapshot& kv) {  // twice in one table
    auto& table = kv.sequences[0].tables[0];
    table.pages[1] = table.pages[0];
    table.addresses[1] = table.addresses[0];
  });
  expect_rule(4, at_rest(), [](KvSnapshot& kv) {  // in two layers
    auto& tables = kv.sequences[2].tables;
    tables[1] = tables[0];
  });
  expect_rule(4, at_rest(), [](KvSnapshot& kv) { kv.sequences[0].tables[0].addresses[1] += 64; });
  expect_rule(4, at_rest(), [](KvSnapshot& kv) { kv.sequences[0].tables[0].addresses.pop_back(); });
}

TEST_F(ValidateTest, K5FullPagesAreSealed) {
  expect_rule(5, at_rest(), [](KvSnapshot& kv) {
    kv.pages[kv.sequences[0].tables[0].pages[1].value].state = PageState::kHot;
  });
}

TEST_F(ValidateTest, K6TablesReachAsFarAsTheTokens) {
  expect_rule(6, at_rest(), [](KvSnapshot& kv) { kv.sequences[0].length = 49; });
  expect_rule(6, at_rest(), [](KvSnapshot& kv) { kv.sequences[2].tables[0].pages.clear(); });
  expect_rule(6, at_rest(), [](KvSnapshot& kv) { kv.sequences[2].tables.pop_back(); });
  expect_rule(6, reserved(), [](KvSnapshot& kv) { kv.sequences[0].pending = 30; });
}

TEST_F(ValidateTest, K7WindowsKeepWhatIsVisibleAndNothingElse) {
  expect_rule(7, at_rest(), [](KvSnapshot& kv) { ++kv.sequences[0].tables[0].first_page; });
  expect_rule(7, at_rest(), [](KvSnapshot& kv) { kv.windows[1] = 4; });
  expect_rule(7, at_rest(), [](KvSnapshot& kv) { kv.windows[1] = 0; });
}

TEST_F(ValidateTest, K8OnlyTheLiveReservationReserves) {
  expect_rule(8, at_rest(), [](KvSnapshot& kv) { kv.sequences[2].pending = 1; });
  expect_rule(8, at_rest(), [](KvSnapshot& kv) { kv.reserved_sequences = {0}; });
  expect_rule(8, at_rest(), [](KvSnapshot& kv) { kv.sequences[2].tables[0].held = PageId(0); });
  const KvSnapshot busy = reserved();
  expect_rule(8, busy, [](KvSnapshot& kv) { kv.reservation_alive = false; });
  expect_rule(8, busy, [](KvSnapshot& kv) { kv.reserved_sequences.pop_back(); });
  expect_rule(8, busy, [](KvSnapshot& kv) { kv.reserved_sequences.push_back(42); });
  expect_rule(8, busy, [](KvSnapshot& kv) { kv.reserved_sequences.push_back(0); });
}

TEST_F(ValidateTest, K9NothingIsLeftAtIdle) {
  KvSnapshot idle;
  idle.page_size = 16;
  idle.pages_total = idle.pages_free = 4;
  // Without sequences a used page has no reference either: K3 comes first unless the count lies.
  expect_rule(9, idle, [](KvSnapshot& kv) {
    kv.pages = {{PageState::kSealed, 0}};
    kv.pages_sealed = 1;
    kv.pages_free = 3;
  });
}

TEST_F(ValidateTest, K10WritersAreAlone) {
  const KvSnapshot busy = reserved();
  expect_rule(10, busy, [](KvSnapshot& kv) {  // a writable page is sealed
    kv.pages[kv.sequences[0].tables[0].pages.back().value].state = PageState::kSealed;
  });
  expect_rule(10, busy, [](KvSnapshot& kv) {  // the tail was not copied, though the child reads it
    auto& table = kv.sequences[0].tables[0];
    const std::size_t tail = table.pages.size() - 2;
    kv.pages[table.pages[tail].value] = {PageState::kFree, 0};
    kv.free_list.push_back(table.pages[tail]);
    table.pages[tail] = *table.held;
    table.addresses[tail] = kv.arena + table.held->value * kv.page_bytes;
    table.held.reset();
  });
}

}  // namespace
}  // namespace quire
