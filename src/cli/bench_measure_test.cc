#include "cli/bench_measure.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/engine_test_support.h"

namespace quire {
namespace {

TEST(BenchStatistics, OfOddAndEvenNumbers) {
  const auto odd = statistics({5, 1, 4});
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.median, 4);
  EXPECT_EQ(odd.max, 5);
  EXPECT_EQ(statistics({8, 2, 4, 100}).median, 6);
  EXPECT_EQ(statistics({3}).median, 3);
}

TEST(BenchSamples, AreTokensOfTheWholeBatchPerSecond) {
  const BenchSamples decode{{.depth = 9, .batch = 4, .generate = 8}, {2, 0.5}};
  EXPECT_EQ(decode.tokens_per_second(), (std::vector<double>{16, 64}));
  const BenchSamples prefill{{.is_prefill = true, .prompt = 100}, {4}};
  EXPECT_EQ(prefill.tokens_per_second(), (std::vector<double>{25}));
}

TEST(RandomTokens, AreOrdinaryAndAlwaysTheSame) {
  const auto engine = testing::load(testing::tiny_options("llama_gqa2_d80"));
  const TokenizerData& data = engine->tokenizer().data();
  RandomTokens tokens(engine->tokenizer());
  const auto first = tokens.take(2000);
  const std::set<TokenId> seen(first.begin(), first.end());
  std::set<TokenId> ordinary;
  for (std::size_t i = 0; i < data.kinds.size(); ++i) {
    if (data.kinds[i] == TokenKind::kNormal) ordinary.insert(static_cast<TokenId>(i));
  }
  EXPECT_LT(ordinary.size(), data.tokens.size());  // there are others, which must not appear
  EXPECT_EQ(seen, ordinary);
  EXPECT_NE(tokens.take(2000), first);
  EXPECT_EQ(RandomTokens(engine->tokenizer()).take(2000), first);
}

class RunCases : public ::testing::Test {
 protected:
  const std::vector<BenchCase> cases_ = {{.is_prefill = true, .prompt = 40},
                                         {.depth = 20, .batch = 2, .generate = 3}};
  std::unique_ptr<Engine> load(std::uint64_t kv_memory = std::uint64_t{64} << 20) {
    auto options = testing::tiny_options("llama_mha_d64");
    options.prefill_chunk = 16;
    options.kv_memory = kv_memory;
    return testing::load(options);
  }
};

TEST_F(RunCases, RepeatsEachAfterAWarmUp) {
  const auto engine = load();
  std::vector<std::string> names;
  double last = 0;
  const auto samples =
      run_cases(*engine, cases_, {.repeat = 2}, [&](double done, std::string_view name) {
        EXPECT_GE(done, last);
        EXPECT_LE(done, 1);
        last = done;
        if (names.empty() || names.back() != name) names.emplace_back(name);
        return true;
      });
  ASSERT_TRUE(samples) << samples.error().message;
  ASSERT_EQ(samples->size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ((*samples)[i].bench_case, cases_[i]);
    EXPECT_EQ((*samples)[i].seconds.size(), 2u);
    for (const double s : (*samples)[i].seconds) EXPECT_GT(s, 0);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"prefill 40", "decode 3 at depth 20, batch 2"}));
  EXPECT_GT(last, 0.9);
  EXPECT_EQ(engine->kv().stats().bytes_used, 0u);
}

// The same work with the choice of tokens in it.
TEST_F(RunCases, GreedyDecodingIsMeasuredToo) {
  const auto engine = load();
  const auto samples = run_cases(*engine, cases_, {.repeat = 2, .greedy = true}, {});
  ASSERT_TRUE(samples) << samples.error().message;
  ASSERT_EQ(samples->size(), 2u);
  for (const auto& s : *samples) EXPECT_EQ(s.seconds.size(), 2u);
  EXPECT_EQ(engine->kv().stats().bytes_used, 0u);
}

TEST_F(RunCases, SharedTokensAreInTheCacheOnce) {
  const std::vector<BenchCase> cases = {{.depth = 20, .batch = 4, .generate = 3, .shared = true}};
  // Two pages of the prompt, and a copy of the second for each of the four.
  const auto engine = load(2 * (2 + 4) * 8192);
  const auto samples = run_cases(*engine, cases, {.repeat = 2}, {});
  ASSERT_TRUE(samples) << samples.error().message;
  EXPECT_EQ(samples->front().seconds.size(), 2u);
  EXPECT_EQ(engine->kv().stats().bytes_used, 0u);
}

// Wherever it is ended, only whole samples count and nothing stays in the cache.
TEST_F(RunCases, EndWheneverAsked) {
  const auto engine = load();
  std::size_t asked = 0;
  ASSERT_TRUE(run_cases(*engine, cases_, {.repeat = 2}, [&](double, std::string_view) {
    ++asked;
    return true;
  }));
  const std::size_t total = asked;
  std::size_t last_count = 0;
  for (std::size_t limit = 1; limit < total; ++limit) {
    asked = 0;
    const auto samples = run_cases(*engine, cases_, {.repeat = 2},
                                   [&](double, std::string_view) { return ++asked < limit; });
    ASSERT_TRUE(samples);
    EXPECT_EQ(asked, limit);  // not asked again
    std::size_t count = 0;
    for (const auto& s : *samples) {
      EXPECT_FALSE(s.seconds.empty());
      count += s.seconds.size();
    }
    EXPECT_GE(count, last_count);
    EXPECT_LT(count, 4u);
    last_count = count;
    EXPECT_EQ(engine->kv().stats().bytes_used, 0u);
  }
  EXPECT_EQ(last_count, 3u);
}

TEST_F(RunCases, AFullCacheNamesTheCase) {
  const auto engine = load(2 * 8192);  // a page of each layer
  const auto samples = run_cases(*engine, cases_, {.repeat = 1}, {});
  ASSERT_FALSE(samples);
  EXPECT_EQ(samples.error().code, ErrorCode::kOutOfMemory);
  EXPECT_TRUE(samples.error().message.starts_with("prefill 40: ")) << samples.error().message;
  EXPECT_EQ(engine->kv().stats().bytes_used, 0u);
}

}  // namespace
}  // namespace quire
