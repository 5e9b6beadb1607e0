#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <limits>
#include <memory>

#include "kernels/attention_testing.h"

namespace quire {
namespace {

using testing::attend;
using testing::attend_split;
using testing::Floats;
using testing::on_every_tier;
using testing::Pages;
using testing::Problem;
using testing::random_floats;
using testing::same_bits;
using testing::write_pages;

double stored(float x, KvType type) {
  switch (type) {
    case KvType::kF32:
      return x;
    case KvType::kF16:
      return f16_to_f32(f32_to_f16(x));
    case KvType::kBF16:
      return bf16_to_f32(f32_to_bf16(x));
  }
  return 0;
}

/// Softmax attention by its definition, in double, without pages, splits or online updates.
std::vector<double> oracle(const Problem& p) {
  const Floats q = p.q();
  const Floats k = p.k();
  const Floats v = p.v();
  std::vector<double> out(q.size());
  for (std::size_t t = 0; t < p.n_q; ++t) {
    const std::size_t position = p.q_position() + t;
    const std::size_t first =
        p.window != 0 && position + 1 > p.window ? position + 1 - p.window : 0;
    for (std::size_t h = 0; h < p.n_kv_heads * p.group; ++h) {
      const std::size_t kv = h / p.group * p.head_dim;
      const float* query = &q[t * p.q_row() + h * p.head_dim];
      std::vector<double> weights;
      double total = 0;
      for (std::size_t j = first; j <= position; ++j) {
        double score = 0;
        for (std::size_t d = 0; d < p.head_dim; ++d) {
          const double q_d = p.k_type == KvType::kBF16 ? stored(query[d], p.k_type) : query[d];
          score += q_d * stored(k[j * p.row() + kv + d], p.k_type);
        }
        score *= double{p.scale()};
        if (p.softcap != 0) score = p.softcap * std::tanh(score / p.softcap);
        weights.push_back(std::exp(score));
        total += weights.back();
      }
      for (std::size_t d = 0; d < p.head_dim; ++d) {
        double sum = 0;
        for (std::size_t j = first; j <= position; ++j) {
          sum += weights[j - first] * stored(v[j * p.row() + kv + d], p.v_type);
        }
        out[t * p.q_row() + h * p.head_dim + d] = sum / total;
      }
    }
  }
  return out;
}

/// Rounding of scores up to ~20 shifts each weight by ~2e-6 relative; the values are ~1.
constexpr double kTolerance = 2e-5;
/// Where V is bf16, so are the weights: each is off by up to 2^-9 of itself, and so is the result
/// of the values' magnitude, a few times 1.
constexpr double kBf16Tolerance = 8e-3;

void expect_attention(const Problem& p) {
  const Floats y = on_every_tier([&](const Kernels& table) { return attend(table, p); });
  const std::vector<double> expected = oracle(p);
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_NEAR(y[i], expected[i], p.v_type == KvType::kBF16 ? kBf16Tolerance : kTolerance)
        << "element " << i << ", head_dim " << p.head_dim << ", group " << p.group << ", "
        << p.n_tokens << " tokens, n_q " << p.n_q << ", page " << p.page_size;
  }
}

TEST(Attention, EveryHeadDimGroupAndStorage) {
  for (const std::size_t head_dim : {2, 64, 80, 96, 100, 128, 256}) {
    for (const std::size_t group : {1, 3, 4, 7, 8}) {
      Problem p;
      p.head_dim = head_dim;
      p.group = group;
      p.n_tokens = 150;
      p.n_q = 5;
      expect_attention(p);
    }
  }
  for (const KvType k_type : {KvType::kF32, KvType::kF16, KvType::kBF16}) {
    for (const KvType v_type : {KvType::kF32, KvType::kF16, KvType::kBF16}) {
      for (const std::size_t head_dim : {64, 100}) {
        Problem p;
        p.k_type = k_type;
        p.v_type = v_type;
        p.head_dim = head_dim;
        p.n_tokens = 77;
        p.n_q = 3;
        expect_attention(p);
      }
    }
  }
}

// Equal scores make every weight 1, which bf16 holds: the result is the mean of the stored values
// to within f32 sums, and any value in the wrong place shows.
TEST(Attention, EqualWeightsOfPairsGiveTheMean) {
  for (const std::size_t n : {1, 2, 5, 16, 77, 128, 129, 600}) {
    for (const std::size_t window : {0, 1, 2, 33, 64}) {
      Problem p;
      p.k_type = p.v_type = KvType::kBF16;
      p.head_dim = 100;
      p.n_tokens = n;
      p.window = window;
      p.spread = 1;
      p.q_spread = 0;
      const Floats y = on_every_tier([&](const Kernels& table) { return attend(table, p); });
      const std::vector<double> expected = oracle(p);
      for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 2e-6) << n;
    }
  }
}

TEST(Attention, ManyQueryHeadsPerKvHead) {
  Problem p;
  p.group = 40;  // more rows than walk the pages at once
  p.head_dim = 32;
  p.n_q = 3;
  expect_attention(p);
}

TEST(Attention, LengthsAroundTilesBlocksAndSplits) {
  for (const std::size_t n : {1, 2, 15, 16, 17, 127, 128, 129, 511, 512, 513, 1025}) {
    Problem p;
    p.n_kv_heads = 1;
    p.n_tokens = n;
    p.n_q = std::min<std::size_t>(n, 2);
    expect_attention(p);
  }
}

TEST(Attention, WindowsOfAnyWidth) {
  for (const std::size_t window : {1, 2, 15, 16, 17, 100, 128, 300, 512, 599, 600, 601}) {
    Problem p;
    p.n_kv_heads = 1;
    p.window = window;
    p.n_tokens = 600;
    p.n_q = 8;
    expect_attention(p);
  }
}

TEST(Attention, SoftcapAndLargeScores) {
  Problem p;
  p.softcap = 5;
  p.n_q = 4;
  expect_attention(p);
  p.softcap = 0;
  p.spread = 6;  // scores in the hundreds: most weights underflow
  p.k_type = p.v_type = KvType::kF32;
  const Floats y = on_every_tier([&](const Kernels& table) { return attend(table, p); });
  const std::vector<double> expected = oracle(p);
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 2e-3);
}

// The bits may depend on neither page size, nor how queries are tiled, nor on which pages that left
// the window still exist (the others are not even addressable here), nor on what lies in unused
// slots (write_pages leaves NaN there).
TEST(Attention, BitsDoNotDependOnPagesTilesOrWhatLeftTheWindow) {
  const bool held = rc::check([] {
    Problem p;
    p.n_kv_heads = *rc::gen::inRange<std::size_t>(1, 3);
    p.group = *rc::gen::inRange<std::size_t>(1, 9);
    p.head_dim = 2 * *rc::gen::inRange<std::size_t>(1, 70);
    p.n_tokens = *rc::gen::inRange<std::size_t>(1, 700);
    p.n_q = std::min(p.n_tokens, *rc::gen::inRange<std::size_t>(1, 20));
    p.window = *rc::gen::element<std::size_t>(0, 1, 20, 64, 200, 512);
    p.k_type = *rc::gen::element(KvType::kF32, KvType::kF16, KvType::kBF16);
    p.v_type = *rc::gen::element(KvType::kF32, KvType::kF16, KvType::kBF16);
    p.softcap = *rc::gen::element(0.0f, 20.0f);
    const Kernels& best = *available_kernels().back();
    const Floats expected = attend(best, p);
    for (const float y : expected) RC_ASSERT(std::isfinite(y));
    Problem other = p;
    other.page_size = *rc::gen::element<std::size_t>(16, 32, 64, 128);
    const std::size_t tile = *rc::gen::inRange<std::size_t>(1, kMaxQueryTile + 1);
    const Kernels& table = **rc::gen::elementOf(
        std::vector<const Kernels*>(available_kernels().begin(), available_kernels().end()));
    RC_ASSERT(bool{same_bits(expected, attend(table, other, tile, true))});
  });
  EXPECT_TRUE(held);
}

/// The first KV head of a problem, from its first page on.
AttentionTask first_head(const Problem& p, const Pages& pages) {
  AttentionTask task;
  task.layout = pages.layout;
  task.pages = pages.pointers.data();
  task.group = p.group;
  return task;
}

TEST(Attention, SplitWithNothingVisibleIsEmpty) {
  Problem p;
  p.window = 20;
  p.n_tokens = 600;
  for (const Kernels* table : available_kernels()) {
    const Pages pages = write_pages(*table, p);
    const Floats q = p.q();
    AttentionTask task = first_head(p, pages);
    task.window = p.window;
    const std::size_t size = attention_record_size(p.head_dim);
    Floats records(p.group * size, 7);
    attend_split(*table, task, p, 0, {q.data(), 599, records.data()}, 1, size);
    Floats out(p.head_dim, 7);
    for (std::size_t h = 0; h < p.group; ++h) {
      EXPECT_EQ(records[h * size], -std::numeric_limits<float>::infinity());
      for (std::size_t i = 1; i < size; ++i) EXPECT_EQ(records[h * size + i], 0);
    }
    table->merge_splits(records.data(), 1, p.head_dim, out.data());
    EXPECT_EQ(out, Floats(p.head_dim, 0));
  }
}

// Values of infinity or NaN in V that a row may not see do not reach it, even when another row of
// the same tile sees them.
TEST(Attention, FutureTokensOfTheTileDoNotLeak) {
  Problem p;
  p.n_q = 8;
  p.n_tokens = 40;
  for (const Kernels* table : available_kernels()) {
    const Floats clean = attend(*table, p);
    Problem alone = p;  // the first query token, before the others were stored
    alone.n_tokens = 33;
    alone.n_q = 1;
    const Pages pages = write_pages(*table, alone);
    const Floats q = p.q();
    AttentionTask task = first_head(p, pages);
    task.scale = p.scale();
    const std::size_t size = attention_record_size(p.head_dim);
    Floats records(8 * p.group * size);
    // Slots 33 .. 39 hold NaN: rows 1 .. 7 see them, row 0 must not.
    attend_split(*table, task, p, 0, {q.data(), 32, records.data()}, 8, size);
    Floats out(p.head_dim);
    table->merge_splits(records.data(), 1, p.head_dim, out.data());
    EXPECT_TRUE(same_bits(out, Floats(clean.begin(), clean.begin() + 64))) << table->name;
  }
}

// The sum of q.k overflows in one lane, in every lane, to either side, or is NaN from the start.
TEST(Attention, ScoresThatOverflowAreNotHidden) {
  Problem p;
  p.n_tokens = 40;
  p.k_type = KvType::kF32;
  for (const Kernels* table : available_kernels()) {
    const Pages pages = write_pages(*table, p);
    for (const float bad : {1e38f, -1e38f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
      for (const bool everywhere : {false, true}) {
        Floats q = p.q();
        if (everywhere) q.assign(q.size(), bad);
        q[7] = bad;
        q[8] = 30 * bad;
        AttentionTask task = first_head(p, pages);
        for (const float softcap : {0.0f, 50.0f}) {
          task.softcap = softcap;
          const std::size_t size = attention_record_size(p.head_dim);
          Floats records(p.group * size);
          attend_split(*table, task, p, 0, {q.data(), 39, records.data()}, 1, size);
          Floats out(p.head_dim);
          table->merge_splits(records.data(), 1, p.head_dim, out.data());
          for (const float value : out) EXPECT_TRUE(std::isnan(value)) << table->name << bad;
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire
