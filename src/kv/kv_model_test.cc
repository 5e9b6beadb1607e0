// Random lives of sequences in a pool that is too small, against a model that knows nothing of
// pages: a sequence is a list of tags, one per token. Every slot a sequence may see must hold its
// tag in every layer, whoever shared, copied, went back or was refused in between.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "kv/kv_arithmetic.h"
#include "kv/kv_manager.h"
#include "kv/kv_test_util.h"

namespace quire {
namespace {

using Tags = std::vector<std::uint32_t>;

/// Everything a caller can observe; equal before and after whatever must change nothing.
struct Observed {
  std::array<std::size_t, 3> pages;  // free, hot, sealed
  std::vector<std::tuple<std::uint32_t, std::size_t, std::size_t, std::vector<std::byte*>>> tables;
  bool operator==(const Observed&) const = default;
};

class World {
 public:
  explicit World(KvConfig config) : kv_(KvManager::create(std::move(config)).value()) {}

  void step(std::uint32_t op) {
    switch (next(op, 8)) {
      case 0:
        if (model_.size() < 6) model_[kv_.add_sequence()];
        break;
      case 1:
        if (model_.size() < 6 && !model_.empty()) {
          const SequenceId parent = pick(op);
          model_[kv_.fork(parent).value()] = model_[parent];
        }
        break;
      case 2:
        if (!model_.empty()) truncate(pick(op), next(op, 1 << 12));
        break;
      case 3:
        if (next(op, 4) == 0 && !model_.empty()) release(pick(op));
        break;
      default:
        reserve(op);
    }
    check();
  }

  void finish() {
    while (!model_.empty()) release(model_.begin()->first);
    RC_ASSERT(kv_.stats().pages_free == kv_.stats().pages_total);
    check();
  }

  std::size_t refusals() const { return refusals_; }
  std::size_t commits() const { return commits_; }
  std::size_t partial_commits() const { return partial_commits_; }

 private:
  /// Takes a number below n off the random bits of an operation.
  static std::uint32_t next(std::uint32_t& bits, std::uint32_t n) {
    const std::uint32_t value = bits % n;
    bits = bits / n * 2654435761u + value;
    return value;
  }

  SequenceId pick(std::uint32_t& op) {
    return std::next(model_.begin(), next(op, static_cast<std::uint32_t>(model_.size())))->first;
  }

  void release(SequenceId id) {
    kv_.release(id);
    kv_.release(id);
    model_.erase(id);
  }

  void truncate(SequenceId id, std::uint32_t random) {
    Tags& tags = model_[id];
    const std::size_t length = random % (tags.size() + 1);
    // May go back when nothing that was dropped for the longest length becomes visible.
    bool allowed = true;
    for (std::size_t layer = 0; layer < n_layers(); ++layer) {
      const std::size_t first = kv_.table(id, layer).first_page * page_size();
      for (std::size_t p = visible_from(length, layer); p < length; ++p)
        allowed = allowed && p >= first;
    }
    const Observed before = observe();
    const Status status = kv_.truncate(id, length);
    RC_ASSERT(status.has_value() == allowed);
    if (allowed)
      tags.resize(length);
    else
      RC_ASSERT(observe() == before);
  }

  void reserve(std::uint32_t op) {
    std::vector<SlotRequest> requests;
    for (const auto& [id, tags] : model_)
      if (next(op, 2) == 0)
        requests.push_back(testing::slots(id, next(op, next(op, 3) == 0 ? 70 : 4)));
    if (next(op, 2) == 0) std::reverse(requests.begin(), requests.end());

    // Without knowing who shares what: new pages are certain, a copy per table is possible.
    std::size_t at_least = 0;
    std::size_t at_most = 0;
    for (const SlotRequest& request : requests) {
      const std::size_t length = model_[request.sequence].size();
      const std::size_t grown = (length + request.tokens.size() + page_size() - 1) / page_size();
      const std::size_t had = (length + page_size() - 1) / page_size();
      at_least += n_layers() * (grown - had);
      at_most += n_layers() * (grown - had + 1);
    }
    const std::size_t n_free = kv_.stats().pages_free;
    const Observed before = observe();
    auto reservation = kv_.reserve(requests);
    if (!reservation) {
      ++refusals_;
      RC_ASSERT(reservation.error().code == ErrorCode::kOutOfMemory);
      RC_ASSERT(at_most > n_free);
      RC_ASSERT(observe() == before);
      return;
    }
    RC_ASSERT(at_least <= n_free);
    write_and_end(op, requests, std::move(*reservation), before);
  }

  void write_and_end(std::uint32_t op, const std::vector<SlotRequest>& requests,
                     Reservation reservation, const Observed& before) {
    check();
    const std::uint32_t outcome = next(op, 8);  // 0: dropped, 1 and 2: one is released in between
    std::map<SequenceId, Tags> written;
    for (const SlotRequest& request : requests) {
      // A step that fails may have written only some of its tokens.
      const std::size_t n = outcome == 0 ? request.tokens.size() / 2 : request.tokens.size();
      for (std::size_t i = 0; i < n; ++i) {
        testing::write_slot(kv_, request.sequence, model_[request.sequence].size() + i,
                            ++last_tag_);
        written[request.sequence].push_back(last_tag_);
      }
    }
    check();  // writing must not have touched anything visible
    const bool release_one = (outcome == 1 || outcome == 2) && !model_.empty();
    if (release_one) release(pick(op));
    check();
    if (outcome <= 1) {
      {
        const Reservation dropped = std::move(reservation);
      }
      if (!release_one) RC_ASSERT(observe() == before);
      return;
    }
    ++commits_;
    std::vector<std::size_t> kept;
    for (const SlotRequest& request : requests) kept.push_back(request.tokens.size());
    if (next(op, 2) == 0) {
      for (std::size_t& n : kept) n = next(op, static_cast<std::uint32_t>(n + 1));
      reservation.commit(kept);
    } else {
      reservation.commit();
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto tags = model_.find(requests[i].sequence);
      if (tags == model_.end()) continue;
      const Tags& all = written[requests[i].sequence];
      tags->second.insert(tags->second.end(), all.begin(),
                          all.begin() + static_cast<std::ptrdiff_t>(kept[i]));
      if (kept[i] > 0 && kept[i] < requests[i].tokens.size()) ++partial_commits_;
    }
  }

  void check() const {
    const Status valid = kv_.validate();
    if (!valid) RC_FAIL(valid.error().message);
    for (const auto& [id, tags] : model_) {
      RC_ASSERT(kv_.length(id) == tags.size());
      for (std::size_t layer = 0; layer < n_layers(); ++layer)
        for (std::size_t p = visible_from(tags.size(), layer); p < tags.size(); ++p)
          RC_ASSERT(testing::slot_has(kv_, id, layer, p, tags[p]));
    }
  }

  Observed observe() const {
    const KvStats stats = kv_.stats();
    Observed observed{{stats.pages_free, stats.pages_hot, stats.pages_sealed}, {}};
    for (const auto& [id, tags] : model_)
      for (std::size_t layer = 0; layer < n_layers(); ++layer) {
        const PageTableView table = kv_.table(id, layer);
        observed.tables.emplace_back(
            id.value, kv_.length(id), table.first_page,
            std::vector<std::byte*>(table.pages.begin(), table.pages.end()));
      }
    return observed;
  }

  /// The token after `length` others sees position p if p > length - window.
  std::size_t visible_from(std::size_t length, std::size_t layer) const {
    const std::size_t window = kv_.config().layers[layer].window;
    std::size_t p = 0;
    while (window != 0 && p + window <= length) ++p;
    return p;
  }
  std::size_t n_layers() const { return kv_.config().layers.size(); }
  std::size_t page_size() const { return kv_.stats().page_size; }

  KvManager kv_;
  std::map<SequenceId, Tags> model_;
  std::uint32_t last_tag_ = 0;
  std::size_t refusals_ = 0;
  std::size_t commits_ = 0;
  std::size_t partial_commits_ = 0;
};

KvConfig random_config() {
  const auto n_layers = *rc::gen::inRange<std::size_t>(1, 4);
  std::vector<std::size_t> windows;
  for (std::size_t i = 0; i < n_layers; ++i)
    windows.push_back(*rc::gen::element<std::size_t>(0, 0, 1, 5, 16, 17, 40, 64));
  const auto page_size = *rc::gen::element<std::uint32_t>(16, 16, 32);
  const auto pages_per_layer = *rc::gen::inRange<std::size_t>(1, 16);
  return testing::small_config(windows, n_layers * pages_per_layer, page_size);
}

RC_GTEST_PROP(KvModel, EverySequenceSeesItsOwnTokens, ()) {
  World world(random_config());
  const auto ops = *rc::gen::container<std::vector<std::uint32_t>>(
      *rc::gen::inRange<std::size_t>(0, 120), rc::gen::arbitrary<std::uint32_t>());
  for (const std::uint32_t op : ops) world.step(op * 2654435761u);
  RC_TAG(world.refusals() > 0 ? "refused" : "not refused");
  world.finish();
}

// Long fixed lives, so that the test is known to reach what it is for.
TEST(KvModel, LongLivesHaveRefusalsAndCommits) {
  const std::array configs = {testing::small_config({0, 20, 40}, 30), testing::small_config({0}, 9),
                              testing::small_config({17, 0}, 21, 32),
                              testing::small_config({1, 5, 64}, 24)};
  for (const KvConfig& config : configs) {
    World world(config);
    std::uint32_t random = 12345;
    for (int i = 0; i < 2000; ++i) {
      random = random * 1664525u + 1013904223u;
      world.step(random >> 4);
    }
    EXPECT_GT(world.refusals(), 100u);
    EXPECT_GT(world.commits(), 300u);
    EXPECT_GT(world.partial_commits(), 50u);
    world.finish();
  }
}

}  // namespace
}  // namespace quire
