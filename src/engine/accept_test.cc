// Steps that keep only some of their tokens: whatever comes later must be as if the others had
// never been computed, although their keys and values still lie in the pages.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "engine/engine_test_support.h"

namespace quire {
namespace {

using testing::load;
using testing::tiny_options;

class Random {
 public:
  explicit Random(std::uint32_t seed) : state_(seed) {}
  std::size_t below(std::size_t n) {
    state_ = state_ * 1664525u + 1013904223u;
    return (state_ >> 8) % n;
  }

 private:
  std::uint32_t state_;
};

/// A sequence in two engines: one computes tokens that it does not keep, one never does.
struct Pair {
  SequenceId guessing;
  SequenceId plain;
};

bool same_row(std::span<const float> a, std::span<const float> b) {
  return std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// Random steps over several sequences, each with up to 24 tokens of which any number is kept. The
/// plain engine gets the kept tokens alone; all rows of kept tokens must agree to the bit.
void run_random_steps(const EngineOptions& options, std::size_t n_steps, std::uint32_t seed) {
  const auto guessing = load(options);
  const auto plain = load(options);
  Random random(seed);
  std::vector<Pair> pairs = {{guessing->add_sequence(), plain->add_sequence()},
                             {guessing->add_sequence(), plain->add_sequence()}};
  for (std::size_t step = 0; step < n_steps; ++step) {
    if (step == n_steps / 2)
      pairs.push_back(
          {guessing->fork(pairs[0].guessing).value(), plain->fork(pairs[0].plain).value()});
    std::vector<std::vector<TokenId>> tokens(pairs.size());
    std::vector<StepItem> items;
    std::vector<std::size_t> keep;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      for (std::size_t n = 1 + random.below(random.below(3) == 0 ? 24 : 5); n > 0; --n)
        tokens[i].push_back(static_cast<TokenId>(random.below(250)));
      keep.push_back(random.below(tokens[i].size() + 1));
      items.push_back(
          {.sequence = pairs[i].guessing, .tokens = tokens[i], .logits = LogitsWanted::kAll});
    }
    std::vector<std::vector<float>> rows;  // of the tokens to keep
    const auto logits =
        guessing->step(items, [&](const StepLogits& all, std::span<std::size_t> kept) {
          std::size_t row = 0;
          for (std::size_t i = 0; i < items.size(); ++i) {
            EXPECT_EQ(kept[i], tokens[i].size());
            kept[i] = keep[i];
            for (std::size_t t = 0; t < keep[i]; ++t)
              rows.emplace_back(all.row(row + t).begin(), all.row(row + t).end());
            row += tokens[i].size();
          }
        });
    ASSERT_TRUE(logits.has_value()) << logits.error().message;
    ASSERT_TRUE(guessing->kv().validate().has_value());

    std::size_t row = 0;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      EXPECT_EQ(guessing->kv().length(pairs[i].guessing),
                plain->kv().length(pairs[i].plain) + keep[i]);
      if (keep[i] == 0) continue;
      const StepItem item{.sequence = pairs[i].plain,
                          .tokens = std::span(tokens[i]).first(keep[i]),
                          .logits = LogitsWanted::kAll};
      const auto expected = plain->step(std::span(&item, 1));
      ASSERT_TRUE(expected.has_value()) << expected.error().message;
      for (std::size_t t = 0; t < keep[i]; ++t)
        ASSERT_TRUE(same_row(rows.at(row++), expected->row(t)))
            << "step " << step << ", sequence " << i << ", token " << t;
    }
    // Later, who gets a copy of a shared tail depends on who writes in the same step.
    if (step >= n_steps / 2) continue;
    EXPECT_EQ(guessing->kv().stats().pages_free, plain->kv().stats().pages_free);
    EXPECT_EQ(guessing->kv().stats().pages_sealed, plain->kv().stats().pages_sealed);
  }
}

// bf16 stores neighbours in pairs, a page may end inside a guess, a window may move past its own
// border with tokens that are not kept.
TEST(Accept, LeavesNothingOfWhatIsNotKept) {
  std::uint32_t seed = 1;
  for (const char* model : {"llama_mha_d64", "gemma3_pattern", "llama_window", "llama_gqa7_d10"})
    for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16})
      for (const std::size_t page_size : {16, 32, 64, 128}) {
        SCOPED_TRACE(std::string(model) + ", " + std::string(kv_type_name(type)) + ", pages of " +
                     std::to_string(page_size));
        EngineOptions options = tiny_options(model);
        options.kv_type = type;
        options.page_size = page_size;
        options.n_threads = page_size == 32 ? 3 : 1;
        run_random_steps(options, page_size == 16 ? 40 : 20, seed++);
        if (::testing::Test::HasFatalFailure()) return;
      }
}

TEST(Accept, IsNotAskedWhenTheStepFails) {
  EngineOptions options = tiny_options("llama_mha_d64");
  options.context = 20;
  const auto engine = load(options);
  const SequenceId s = engine->add_sequence();
  const auto tokens = testing::some_tokens(21);
  const StepItem item{.sequence = s, .tokens = tokens, .logits = LogitsWanted::kAll};
  bool asked = false;
  EXPECT_FALSE(engine->step(std::span(&item, 1),
                            [&](const StepLogits&, std::span<std::size_t>) { asked = true; }));
  EXPECT_FALSE(asked);
  EXPECT_EQ(engine->kv().length(s), 0u);
}

}  // namespace
}  // namespace quire
