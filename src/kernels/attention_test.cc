#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <limits>
#include <memory>

#include "kernels/kernels_testing.h"

namespace quire {
namespace {

using testing::Floats;
using testing::on_every_tier;
using testing::random_floats;
using testing::same_bits;

/// One attention layer over n_tokens stored positions, queried from `q_position` on.
struct Problem {
  KvType k_type = KvType::kF16;
  KvType v_type = KvType::kF16;
  std::size_t page_size = 16;
  std::size_t n_kv_heads = 2;
  std::size_t group = 3;
  std::size_t head_dim = 64;
  std::size_t n_tokens = 100;  // the last position a query sees is n_tokens - 1
  std::size_t n_q = 1;
  std::size_t window = 0;
  float softcap = 0;
  std::uint32_t seed = 1;
  float spread = 1;
  float q_spread = 2;  // times that

  std::size_t q_position() const { return n_tokens - n_q; }
  std::size_t row() const { return n_kv_heads * head_dim; }
  std::size_t q_row() const { return row() * group; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(head_dim)); }
  Floats k() const { return random_floats(n_tokens * row(), seed, spread); }
  Floats v() const { return random_floats(n_tokens * row(), seed + 1, spread); }
  Floats q() const { return random_floats(n_q * q_row(), seed + 2, q_spread * spread); }
};

/// Pages of exactly page_bytes each, so that a sanitizer sees reads past one; unwritten slots are
/// filled with NaN of every format.
struct Pages {
  KvLayout layout;
  std::vector<std::unique_ptr<std::byte[]>> memory;
  std::vector<const std::byte*> pointers;
};

Pages write_pages(const Kernels& table, const Problem& p, std::size_t dropped_pages = 0) {
  Pages out;
  out.layout = {p.k_type, p.v_type, static_cast<std::uint32_t>(p.n_kv_heads),
                static_cast<std::uint32_t>(p.head_dim), static_cast<std::uint32_t>(p.page_size)};
  const Floats k = p.k();
  const Floats v = p.v();
  for (std::size_t first = 0; first < p.n_tokens; first += p.page_size) {
    auto page = std::make_unique_for_overwrite<std::byte[]>(out.layout.page_bytes());
    std::memset(page.get(), 0xff, out.layout.page_bytes());
    for (std::size_t t = first; t < std::min(p.n_tokens, first + p.page_size); ++t) {
      table.kv_write(out.layout, page.get(), t - first, &k[t * p.row()], &v[t * p.row()]);
    }
    out.memory.push_back(std::move(page));
    out.pointers.push_back(out.memory.back().get());
  }
  out.pointers.erase(out.pointers.begin(),
                     out.pointers.begin() + static_cast<std::ptrdiff_t>(dropped_pages));
  return out;
}

/// [n_q, heads, head_dim], the queries handed over `tile` tokens at a time.
Floats attend(const Kernels& table, const Problem& p, std::size_t tile = kMaxQueryTile,
              bool drop_pages = false) {
  const std::size_t seen_from =
      p.window != 0 && p.q_position() + 1 > p.window ? p.q_position() + 1 - p.window : 0;
  const std::size_t dropped = drop_pages ? seen_from / p.page_size : 0;
  const Pages pages = write_pages(table, p, dropped);
  const Floats q = p.q();
  const std::size_t n_splits = p.n_tokens / kAttentionSplit + 1;
  const std::size_t size = attention_record_size(p.head_dim);
  Floats out(q.size(), -77);
  for (std::size_t first = 0; first < p.n_q; first += tile) {
    for (std::size_t h = 0; h < p.n_kv_heads; ++h) {
      AttentionTask task;
      task.layout = pages.layout;
      task.pages = pages.pointers.data();
      task.first_page = dropped;
      task.kv_head = h;
      task.group = p.group;
      task.q = &q[first * p.q_row() + h * p.group * p.head_dim];
      task.q_stride = p.q_row();
      task.n_q = std::min(tile, p.n_q - first);
      task.q_position = p.q_position() + first;
      task.window = p.window;
      task.scale = p.scale();
      task.softcap = p.softcap;
      const std::size_t n_rows = task.n_q * p.group;
      Floats records(n_rows * n_splits * size);
      for (std::size_t s = 0; s < n_splits; ++s) {
        table.attend_split(task, s, &records[s * size], n_splits * size);
      }
      for (std::size_t r = 0; r < n_rows; ++r) {
        const std::size_t token = first + r / p.group;
        const std::size_t head = h * p.group + r % p.group;
        table.merge_splits(&records[r * n_splits * size], n_splits, p.head_dim,
                           &out[token * p.q_row() + head * p.head_dim]);
      }
    }
  }
  return out;
}

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
AttentionTask first_head(const Problem& p, const Pages& pages, const Floats& q) {
  AttentionTask task;
  task.layout = pages.layout;
  task.pages = pages.pointers.data();
  task.group = p.group;
  task.q = q.data();
  task.q_stride = p.q_row();
  return task;
}

TEST(Attention, SplitWithNothingVisibleIsEmpty) {
  Problem p;
  p.window = 20;
  p.n_tokens = 600;
  for (const Kernels* table : available_kernels()) {
    const Pages pages = write_pages(*table, p);
    const Floats q = p.q();
    AttentionTask task = first_head(p, pages, q);
    task.n_q = 1;
    task.q_position = 599;
    task.window = p.window;
    const std::size_t size = attention_record_size(p.head_dim);
    Floats records(p.group * size, 7);
    table->attend_split(task, 0, records.data(), size);
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
    AttentionTask task = first_head(p, pages, q);
    task.n_q = 8;  // slots 33 .. 39 hold NaN: rows 1 .. 7 see them, row 0 must not
    task.q_position = 32;
    task.scale = p.scale();
    const std::size_t size = attention_record_size(p.head_dim);
    Floats records(8 * p.group * size);
    table->attend_split(task, 0, records.data(), size);
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
        AttentionTask task = first_head(p, pages, q);
        task.n_q = 1;
        task.q_position = 39;
        for (const float softcap : {0.0f, 50.0f}) {
          task.softcap = softcap;
          const std::size_t size = attention_record_size(p.head_dim);
          Floats records(p.group * size);
          table->attend_split(task, 0, records.data(), size);
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
