#include "sched/planner.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "sched/planner_testing.h"

namespace quire {
namespace {

using testing::planner_config;

SchedSequence decoding(SchedId id, std::size_t length, std::size_t own_pages) {
  return {.id = id,
          .arrival = id,
          .length = length,
          .known = length + 1,
          .max_length = 1000,
          .own_pages = own_pages};
}

SchedSequence prompt(SchedId id, std::size_t known) {
  return {.id = id, .arrival = id, .length = 0, .known = known, .max_length = known + 100};
}

using Items = std::vector<PlannedTokens>;
using Ids = std::vector<SchedId>;

TEST(Planner, DecodingComesFirstAndPromptsFillTheBudget) {
  const Planner planner({.max_running = 8, .step_tokens = 64}, planner_config(2));
  const SchedSequence running[] = {prompt(1, 300), decoding(2, 10, 2), decoding(3, 40, 6)};
  const SchedSequence waiting[] = {prompt(4, 500)};
  const StepPlan plan = planner.plan({running, waiting, 1000, 1000});
  EXPECT_EQ(plan.items, (Items{{2, 1}, {3, 1}, {1, 62}}));
  EXPECT_TRUE(plan.admit.empty());  // the budget is spent
}

TEST(Planner, APromptGoesOnHoweverManyDecode) {
  const Planner planner({.max_running = 8, .step_tokens = 2}, planner_config(1));
  const SchedSequence running[] = {decoding(1, 5, 1), decoding(2, 5, 1), decoding(3, 5, 1),
                                   prompt(4, 50)};
  EXPECT_EQ(planner.plan({running, {}, 100, 100}).items, (Items{{1, 1}, {2, 1}, {3, 1}, {4, 1}}));
}

TEST(Planner, AdmitsInOrderOfPriorityThenArrival) {
  const Planner planner({.max_running = 2, .step_tokens = 100}, planner_config(1));
  SchedSequence waiting[] = {prompt(1, 10), prompt(2, 10), prompt(3, 10)};
  waiting[2].priority = -1;
  EXPECT_EQ(planner.plan({{}, waiting, 100, 100}).admit, (Ids{3, 1}));
}

TEST(Planner, WhatDoesNotFitMakesTheNextWait) {
  const Planner planner({.max_running = 8, .step_tokens = 1000}, planner_config(1));
  const SchedSequence running[] = {decoding(1, 15, 1)};
  const SchedSequence waiting[] = {prompt(2, 200), prompt(3, 10)};
  EXPECT_TRUE(planner.plan({running, waiting, 9, 10}).admit.empty());
}

TEST(Planner, TakesPagesFromTheLastInOrder) {
  const Planner planner({.max_running = 8, .step_tokens = 64}, planner_config(2));
  SchedSequence running[] = {decoding(1, 16, 2), decoding(2, 16, 2), decoding(3, 8, 2)};
  running[0].priority = 1;  // so it is the last
  const StepPlan plan = planner.plan({running, {}, 0, 6});
  EXPECT_EQ(plan.preempt, (Ids{1}));
  EXPECT_EQ(plan.items, (Items{{2, 1}, {3, 1}}));
}

TEST(Planner, AdmitsNothingWhileItPreempts) {
  const Planner planner({.max_running = 8, .step_tokens = 64}, planner_config(1));
  const SchedSequence running[] = {decoding(1, 16, 1), decoding(2, 500, 32)};
  const SchedSequence waiting[] = {prompt(3, 4)};
  const StepPlan plan = planner.plan({running, waiting, 0, 33});
  EXPECT_EQ(plan.preempt, (Ids{2}));
  EXPECT_TRUE(plan.admit.empty());
}

TEST(Planner, ASharedTailCostsACopy) {
  const Planner planner({.max_running = 8, .step_tokens = 64}, planner_config(3));
  SchedSequence running[] = {decoding(1, 8, 0)};
  running[0].shares_tail = true;
  EXPECT_TRUE(planner.plan({running, {}, 2, 10}).items.empty());
  EXPECT_EQ(planner.plan({running, {}, 3, 10}).items, (Items{{1, 1}}));
}

TEST(Planner, WithoutChunksAPromptIsOneStep) {
  const Planner planner({.max_running = 8, .step_tokens = 64, .chunked_prefill = false},
                        planner_config(1));
  const SchedSequence waiting[] = {prompt(1, 500), prompt(2, 10)};
  EXPECT_EQ(planner.plan({{}, waiting, 100, 100}).items, (Items{{1, 500}}));
}

TEST(Planner, AStaticBatchWaitsForTheOneBefore) {
  const Planner planner({.batch = BatchPolicy::kStatic, .max_running = 8, .step_tokens = 64},
                        planner_config(1));
  const SchedSequence running[] = {decoding(1, 8, 1)};
  const SchedSequence waiting[] = {prompt(2, 10), prompt(3, 10)};
  EXPECT_TRUE(planner.plan({running, waiting, 100, 100}).admit.empty());
  EXPECT_EQ(planner.plan({{}, waiting, 100, 100}).admit, (Ids{2, 3}));
}

TEST(Planner, ReservingFitsFewerAtOnce) {
  const SchedSequence waiting[] = {prompt(1, 16), prompt(2, 16), prompt(3, 16)};  // 116 at most
  const auto admitted = [&](AllocationPolicy policy) {
    const Planner planner({.allocation = policy, .max_running = 8, .step_tokens = 64},
                          planner_config(1));
    return planner.plan({{}, waiting, 16, 16}).admit.size();
  };
  EXPECT_EQ(admitted(AllocationPolicy::kReserve), 2u);  // 8 pages each
  EXPECT_EQ(admitted(AllocationPolicy::kPaged), 3u);
}

TEST(Planner, BranchesCountAsSequencesThatRun) {
  const Planner planner({.max_running = 4, .step_tokens = 64}, planner_config(1));
  SchedSequence waiting[] = {prompt(1, 8), prompt(2, 8)};
  waiting[0].n_branches = 3;
  waiting[1].n_branches = 2;
  EXPECT_EQ(planner.plan({{}, waiting, 100, 100}).admit, (Ids{1}));
}

TEST(Planner, ACachedPrefixIsNotComputedAndNoLongerAvailable) {
  const Planner planner({.max_running = 4, .step_tokens = 64}, planner_config(1));
  SchedSequence waiting[] = {prompt(1, 100)};
  waiting[0].length = 96;
  waiting[0].own_pages = 6;
  EXPECT_EQ(planner.plan({{}, waiting, 7, 7}).items, (Items{{1, 4}}));
  const SchedSequence running[] = {decoding(9, 1, 1)};
  EXPECT_TRUE(planner.plan({running, waiting, 7, 8}).admit.empty());
}

TEST(Planner, WindowsBoundWhatASequenceHolds) {
  const Planner planner({.max_running = 4, .step_tokens = 32}, planner_config(1, 64));
  EXPECT_EQ(planner.pages_at_most(10'000, 0, 1), 6u);
  EXPECT_EQ(Planner({}, planner_config(2)).pages_at_most(100, 0, 1), 14u);
  EXPECT_EQ(Planner({}, planner_config(1)).pages_at_most(100, 40, 3), 2u + 3 * 5);
}

// ---- any load, on a pool that is only counted

struct Load {
  std::size_t n_prompt;
  std::size_t n_generated;
  std::int32_t priority;
  std::size_t arrives;  // in this step
};

/// Runs a load to its end and checks every plan on the way.
class Simulation {
 public:
  Simulation(PlannerOptions options, std::size_t n_layers, std::size_t n_pages,
             std::vector<Load> load)
      : planner_(options, planner_config(n_layers)),
        n_layers_(n_layers),
        n_pages_(n_pages),
        load_(std::move(load)) {}

  void run() {
    std::size_t most = 100;
    for (const Load& each : load_) most += each.arrives + 4 * (each.n_prompt + each.n_generated);
    for (std::size_t step = 0; n_done_ < load_.size(); ++step) {
      RC_ASSERT(step < most * load_.size());  // or nothing goes on
      arrive(step);
      advance();
    }
    RC_ASSERT(running_.empty() && waiting_.empty());
  }

  std::size_t preemptions() const { return preemptions_; }

 private:
  std::size_t held(const SchedSequence& s) const { return pages_for(s.length, 16) * n_layers_; }

  std::size_t free_pages() const {
    std::size_t pages = n_pages_;
    for (const auto& [id, s] : running_) pages -= held(s);
    return pages;
  }

  void arrive(std::size_t step) {
    for (std::size_t i = 0; i < load_.size(); ++i)
      if (load_[i].arrives == step)
        waiting_[i] = {.id = i,
                       .priority = load_[i].priority,
                       .arrival = step * load_.size() + i,
                       .known = load_[i].n_prompt,
                       .max_length = load_[i].n_prompt + load_[i].n_generated};
  }

  static std::vector<SchedSequence> values(const std::map<SchedId, SchedSequence>& of) {
    std::vector<SchedSequence> out;
    for (const auto& [id, s] : of) out.push_back(s);
    return out;
  }

  void advance() {
    for (auto& [id, s] : running_) s.own_pages = held(s);
    const auto running = values(running_);
    const auto waiting = values(waiting_);
    const StepPlan plan = planner_.plan({running, waiting, free_pages(), n_pages_});
    if (!running.empty() || !waiting.empty()) RC_ASSERT(!plan.items.empty());
    preempt(plan);
    for (const SchedId id : plan.admit) {
      RC_ASSERT(waiting_.contains(id));
      running_.insert(waiting_.extract(id));
    }
    RC_ASSERT(running_.size() <= std::max<std::size_t>(planner_.options().max_running, 1));
    compute(plan);
  }

  void preempt(const StepPlan& plan) {
    preemptions_ += plan.preempt.size();
    RC_ASSERT(plan.preempt.empty() || plan.admit.empty());
    for (const SchedId id : plan.preempt) {
      RC_ASSERT(running_.contains(id));
      const SchedSequence victim = running_.at(id);
      running_.erase(id);
      // Everybody who stays comes before it.
      for (const auto& [other, s] : running_)
        RC_ASSERT(std::tie(s.priority, s.arrival) < std::tie(victim.priority, victim.arrival) ||
                  std::ranges::count(plan.preempt, other) == 1);
      waiting_[id] = victim;
      waiting_[id].length = 0;
      waiting_[id].own_pages = 0;
    }
    RC_ASSERT(plan.preempt.empty() || !running_.empty());
  }

  void compute(const StepPlan& plan) {
    std::size_t n_tokens = 0;
    std::size_t n_decodes = 0;
    bool prompts = false;
    for (const auto& [id, n] : plan.items) {
      SchedSequence& s = running_.at(id);
      RC_ASSERT(n >= 1 && s.length + n <= s.known);
      const bool decode = s.known == s.length + 1;
      if (n > 1) prompts = true;
      RC_ASSERT(!(decode && n == 1) || !prompts);  // decoding comes first
      n_decodes += decode;
      n_tokens += n;
      s.length += n;
    }
    if (planner_.options().chunked_prefill)
      RC_ASSERT(n_tokens <= std::max(planner_.options().step_tokens, n_decodes + 1) + n_decodes);
    std::size_t used = 0;
    for (const auto& [id, s] : running_) used += held(s);
    RC_ASSERT(used <= n_pages_);
    for (const auto& [id, n] : plan.items) {
      SchedSequence& s = running_.at(id);
      if (s.length < s.known) continue;
      if (++s.known > s.max_length) {
        running_.erase(id);
        ++n_done_;
      }
    }
  }

  Planner planner_;
  std::size_t n_layers_;
  std::size_t n_pages_;
  std::vector<Load> load_;
  std::map<SchedId, SchedSequence> running_;
  std::map<SchedId, SchedSequence> waiting_;
  std::size_t n_done_ = 0;
  std::size_t preemptions_ = 0;
};

rc::Gen<Load> loads() {
  return rc::gen::build<Load>(
      rc::gen::set(&Load::n_prompt, rc::gen::inRange<std::size_t>(1, 120)),
      rc::gen::set(&Load::n_generated, rc::gen::inRange<std::size_t>(1, 90)),
      rc::gen::set(&Load::priority, rc::gen::inRange(-1, 2)),
      rc::gen::set(&Load::arrives, rc::gen::inRange<std::size_t>(0, 40)));
}

TEST(PlannerProperty, EveryLoadThatFitsAloneEnds) {
  rc::check([] {
    const auto n_layers = *rc::gen::inRange<std::size_t>(1, 4);
    const PlannerOptions options{
        .batch = *rc::gen::element(BatchPolicy::kContinuous, BatchPolicy::kStatic),
        .allocation = *rc::gen::element(AllocationPolicy::kPaged, AllocationPolicy::kReserve),
        .max_running = *rc::gen::inRange<std::size_t>(1, 9),
        .step_tokens = *rc::gen::inRange<std::size_t>(1, 100),
        .chunked_prefill = *rc::gen::arbitrary<bool>()};
    const auto load = *rc::gen::container<std::vector<Load>>(8, loads());
    // Room for the largest alone, and little more.
    std::size_t pages = 0;
    for (const Load& each : load)
      pages = std::max(pages, pages_for(each.n_prompt + each.n_generated, 16) * n_layers);
    pages += *rc::gen::inRange<std::size_t>(0, 20);
    Simulation simulation(options, n_layers, pages, load);
    simulation.run();
    if (options.allocation == AllocationPolicy::kReserve) RC_ASSERT(simulation.preemptions() == 0u);
    RC_TAG(simulation.preemptions() > 0 ? "preempted" : "calm");
  });
}

}  // namespace
}  // namespace quire
