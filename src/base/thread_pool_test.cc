#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <vector>

namespace quire {
namespace {

TEST(ThreadPool, SharesCoverTheRangeOnce) {
  for (std::size_t n : {0u, 1u, 7u, 100u})
    for (std::size_t parts : {1u, 2u, 3u, 8u}) {
      std::size_t next = 0;
      for (std::size_t p = 0; p < parts; ++p) {
        const Range r = split_range(n, p, parts);
        EXPECT_EQ(r.begin, next);
        next = r.end;
      }
      EXPECT_EQ(next, n);
    }
}

TEST(ThreadPool, BarriersOrderStages) {
  for (std::size_t n_threads : {1u, 2u, 5u}) {
    ThreadPool pool(n_threads);
    std::vector<std::size_t> a(n_threads), b(n_threads);
    for (int round = 0; round < 200; ++round) {
      pool.run([&](ThreadPool::Worker& w) {
        for (int stage = 0; stage < 5; ++stage) {
          a[w.index()] = w.index() + static_cast<std::size_t>(stage);
          w.barrier();
          b[w.index()] = std::accumulate(a.begin(), a.end(), std::size_t{0});
          w.barrier();
        }
      });
      for (std::size_t sum : b) ASSERT_EQ(sum, n_threads * (n_threads - 1) / 2 + 4 * n_threads);
    }
  }
}

// Threads come and go between runs while busy threads take their CPUs.
TEST(ThreadPool, RunsAreWholeWhileThreadsComeAndGo) {
  const std::size_t n_threads = available_cpus() + 2;
  ThreadPool pool(n_threads, ThreadPool::Neighbours::kYieldTo);
  std::vector<std::size_t> sums(n_threads);
  for (int round = 0; round < 4000; ++round) {
    const std::size_t n = pool.n_active();
    ASSERT_GE(n, 1u);
    std::atomic<std::size_t> n_workers{0};
    std::vector<std::size_t> parts(n_threads);
    pool.run([&](ThreadPool::Worker& w) {
      ++n_workers;
      EXPECT_EQ(w.count(), n);
      EXPECT_LT(w.index(), n);
      const Range share = w.share(1000);
      for (std::size_t i = share.begin; i < share.end; ++i) parts[w.index()] += i;
      w.barrier();
      sums[w.index()] = std::accumulate(parts.begin(), parts.end(), std::size_t{0});
    });
    ASSERT_EQ(n_workers, n);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(sums[i], 499'500u);
  }
}

}  // namespace
}  // namespace quire
