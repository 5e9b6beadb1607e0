#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <numeric>

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

}  // namespace
}  // namespace quire
