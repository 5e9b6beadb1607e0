#include "base/thread_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace quire {
namespace {

/// Runs of `run_s` for `seconds`; `share(n)` is what the slowest of n threads lacks its CPU for.
/// Returns the number of threads of each run.
std::vector<std::size_t> simulate(ThreadBudget& budget, double seconds, double run_s,
                                  const std::function<double(std::size_t)>& share) {
  std::vector<std::size_t> used;
  for (double t = 0; t < seconds; t += run_s) {
    used.push_back(budget.n_active());
    budget.observe(run_s, run_s * share(budget.n_active()));
  }
  return used;
}

double share_of(const std::vector<std::size_t>& used, std::size_t n) {
  return static_cast<double>(std::ranges::count(used, n)) / static_cast<double>(used.size());
}

double undisturbed(std::size_t) { return 0.02; }

TEST(ThreadBudget, AllComputeWhileNobodyDisturbs) {
  ThreadBudget budget(8);
  EXPECT_EQ(share_of(simulate(budget, 10, 0.004, undisturbed), 8), 1);
}

TEST(ThreadBudget, OneIsLeftOutForANeighbour) {
  for (const std::size_t n : {2u, 3u, 8u, 64u}) {
    for (const double run_s : {0.0005, 0.004, 0.15}) {
      ThreadBudget budget(n);
      const auto used =
          simulate(budget, 60, run_s, [&](std::size_t k) { return k == n ? 0.6 : 0.0; });
      EXPECT_GT(share_of(used, n - 1), 0.93) << n << " " << run_s;
      EXPECT_EQ(share_of(used, n) + share_of(used, n - 1), 1) << n << " " << run_s;
    }
  }
}

TEST(ThreadBudget, AsManyAsThereAreNeighboursButNeverAll) {
  ThreadBudget three(8);
  const auto used = simulate(three, 60, 0.004, [](std::size_t k) { return k > 5 ? 0.5 : 0.0; });
  EXPECT_GT(share_of(used, 5), 0.9);
  ThreadBudget none(4);
  const auto least = simulate(none, 60, 0.004, [](std::size_t) { return 0.9; });
  EXPECT_GT(share_of(least, 1), 0.85);
  EXPECT_EQ(share_of(least, 0), 0);
}

TEST(ThreadBudget, AllComputeAgainSoonAfterTheNeighbourHasGone) {
  ThreadBudget budget(4);
  simulate(budget, 60, 0.004, [](std::size_t k) { return k == 4 ? 0.6 : 0.0; });
  simulate(budget, 9, 0.004, undisturbed);
  EXPECT_EQ(budget.n_active(), 4u);
  // And what was learnt about the neighbour that has gone is forgotten: the next one is tried anew.
  const auto used = simulate(budget, 3, 0.004, [](std::size_t k) { return k == 4 ? 0.6 : 0.0; });
  EXPECT_GT(share_of(used, 4), 0.05);
}

TEST(ThreadBudget, ALossThatCostsLessThanAThreadIsBorne) {
  for (const std::size_t n : {2u, 4u, 16u}) {
    ThreadBudget budget(n);
    const double break_even = 1.0 / static_cast<double>(n);
    EXPECT_EQ(
        share_of(simulate(budget, 5, 0.004, [&](std::size_t) { return 0.95 * break_even; }), n), 1);
    simulate(budget, 0.2, 0.004, [&](std::size_t k) { return k == n ? 1.05 * break_even : 0.0; });
    EXPECT_EQ(budget.n_active(), n - 1);
  }
}

TEST(ThreadBudget, OneThreadStaysOne) {
  ThreadBudget budget(1);
  EXPECT_EQ(share_of(simulate(budget, 5, 0.004, [](std::size_t) { return 0.9; }), 1), 1);
}

}  // namespace
}  // namespace quire
