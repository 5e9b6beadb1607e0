// Queries of several sequences over the pages they share: one walk gives what each would get alone.

#include <gtest/gtest.h>

#include <tuple>

#include "kernels/attention_testing.h"

namespace quire {
namespace {

using testing::attend;
using testing::Floats;
using testing::Pages;
using testing::Problem;
using testing::same_bits;
using testing::write_pages;

class SharedPages
    : public ::testing::TestWithParam<std::tuple<KvType, std::size_t, std::size_t, std::size_t>> {
 protected:
  Problem problem() const {
    const auto& [type, head_dim, group, page_size] = GetParam();
    Problem p;
    p.k_type = p.v_type = type;
    p.head_dim = head_dim;
    p.group = group;
    p.page_size = page_size;
    p.n_kv_heads = 1;
    return p;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Attention, SharedPages,
    ::testing::Combine(::testing::Values(KvType::kF32, KvType::kF16, KvType::kBF16),
                       ::testing::Values(std::size_t{64}, std::size_t{20}),
                       ::testing::Values(std::size_t{1}, std::size_t{3}, std::size_t{5}),
                       ::testing::Values(std::size_t{16}, std::size_t{128})));

// Five sequences have 640 positions in common and go on by themselves for 1 to 300 more.
TEST_P(SharedPages, GiveEachSequenceWhatItGetsAlone) {
  constexpr std::size_t kShared = 640;
  const std::vector<std::size_t> lengths = {641, 700, 769, 897, 940};
  for (const Kernels* table : available_kernels()) {
    std::vector<Problem> problems;
    std::vector<Floats> q;
    std::vector<Pages> pages;
    for (const std::size_t length : lengths) {
      Problem p = problem();
      p.n_tokens = length;
      p.seed = 3;  // k and v of a longer sequence begin with those of a shorter one
      problems.push_back(p);
      q.push_back(testing::random_floats(p.q_row(), static_cast<std::uint32_t>(length)));
      pages.push_back(write_pages(*table, p));
    }
    // Those of all but one are never read before the sequences part.
    for (std::size_t i = 1; i < pages.size(); ++i) {
      for (std::size_t page = 0; page < kShared / problems[i].page_size; ++page) {
        std::memset(pages[i].memory[page].get(), 0xff, pages[i].layout.page_bytes());
      }
    }
    const Problem& p = problems[0];
    const std::size_t size = attention_record_size(p.head_dim);
    const std::size_t stride = 2 * size;  // two splits
    Floats records(lengths.size() * p.group * stride, -77);
    const auto run = [&](std::size_t first, std::size_t n, Range positions) {
      std::vector<AttentionQuery> queries;
      for (std::size_t i = first; i < first + n; ++i) {
        queries.push_back(
            {.q = q[i].data(),
             .position = lengths[i] - 1,
             .records = &records[i * p.group * stride + positions.begin / kAttentionSplit * size]});
      }
      const AttentionTask task{.layout = pages[first].layout,
                               .pages = pages[first].pointers.data(),
                               .group = p.group,
                               .queries = queries.data(),
                               .n_queries = n,
                               .record_stride = stride,
                               .scale = p.scale()};
      table->attend(task, positions);
    };
    run(0, lengths.size(), {0, 512});
    run(0, lengths.size(), {512, kShared});
    for (std::size_t i = 0; i < lengths.size(); ++i) run(i, 1, {kShared, 1024});
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      Floats out(p.q_row());
      for (std::size_t h = 0; h < p.group; ++h) {
        table->merge_splits(&records[(i * p.group + h) * stride], 2, p.head_dim,
                            &out[h * p.head_dim]);
      }
      EXPECT_TRUE(same_bits(out, attend(*table, problems[i], q[i]))) << table->name << lengths[i];
    }
  }
}

}  // namespace
}  // namespace quire
