#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

namespace quire {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

SamplerParams greedy() {
  SamplerParams p;
  p.temperature = 0;
  return p;
}

SamplerParams plain(float temperature = 1) {
  SamplerParams p;
  p.temperature = temperature;
  p.top_k = 0;
  p.top_p = 1;
  p.min_p = 0;
  return p;
}

TokenId choose(SamplerParams params, const std::vector<float>& logits,
               const std::vector<TokenId>& history = {}) {
  auto sampler = Sampler::create(std::move(params), logits.size());
  EXPECT_TRUE(sampler) << sampler.error().message;
  for (const TokenId token : history) sampler->accept(token);
  const auto sampled = sampler->sample(logits);
  EXPECT_TRUE(sampled) << sampled.error().message;
  return sampled->token;
}

std::string refusal(SamplerParams params, std::size_t vocab_size = 10) {
  const auto sampler = Sampler::create(std::move(params), vocab_size);
  return sampler ? "accepted" : sampler.error().message;
}

std::string failure(SamplerParams params, const std::vector<float>& logits) {
  auto sampler = Sampler::create(std::move(params), logits.size());
  EXPECT_TRUE(sampler);
  const auto sampled = sampler->sample(logits);
  return sampled ? "sampled" : sampled.error().message;
}

TEST(Sampler, GreedyTakesTheBestAndTheLowerIdOfATie) {
  EXPECT_EQ(choose(greedy(), {0, 3, 1, 3}), 1);
  EXPECT_EQ(choose(greedy(), {-5, -3, -kInf}), 1);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  // Probabilities 1/10 … 4/10.
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), std::log(3.0f),
                                     std::log(4.0f)};
  for (const bool sorted : {false, true}) {  // walked by id, and best first
    auto params = plain();
    params.seed = 42;
    if (sorted) params.top_p = 0.9999f;
    auto sampler = Sampler::create(params, 4);
    ASSERT_TRUE(sampler);
    constexpr int kDraws = 40000;
    std::vector<double> seen(4);
    for (int i = 0; i < kDraws; ++i)
      ++seen[static_cast<std::size_t>(sampler->sample(logits)->token)];
    double chi_square = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const double expected = kDraws * static_cast<double>(i + 1) / 10;
      chi_square += (seen[i] - expected) * (seen[i] - expected) / expected;
    }
    EXPECT_LT(chi_square, 16.27);  // 3 degrees of freedom, p = 0.001
  }
}

TEST(Sampler, TheSeedDecidesEverything) {
  std::vector<float> logits(1000);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 7);
  const auto stream = [&](std::uint64_t seed) {
    auto params = plain();
    params.seed = seed;
    auto sampler = Sampler::create(params, logits.size());
    std::vector<TokenId> tokens;
    for (int i = 0; i < 20; ++i) tokens.push_back(sampler->sample(logits)->token);
    return tokens;
  };
  EXPECT_EQ(stream(5), stream(5));
  EXPECT_NE(stream(5), stream(6));
}

TEST(Sampler, DrawsMatchNumbersWorkedOutByHand) {
  // Seed 0, draw 0 is 0.88052… (random_test.cc): above 0.7, so the second of {0.7, 0.3}.
  EXPECT_EQ(choose(plain(), {std::log(0.7f), std::log(0.3f)}), 1);
  EXPECT_EQ(choose(plain(), {std::log(0.9f), std::log(0.1f)}), 0);
}

TEST(Sampler, RepeatPenaltyDividesPositiveAndMultipliesNegativeLogits) {
  auto params = greedy();
  params.repeat_penalty = 2;
  EXPECT_EQ(choose(params, {4, 1.9f}, {0}), 0);  // 4 / 2 = 2
  EXPECT_EQ(choose(params, {4, 2.1f}, {0}), 1);
  EXPECT_EQ(choose(params, {-1, -1.9f}, {0}), 1);  // -1 * 2 = -2
  EXPECT_EQ(choose(params, {-1, -2.1f}, {0}), 0);
  EXPECT_EQ(choose(params, {4, 1.9f}, {0, 0, 0}), 0);  // once, however often it occurred
}

TEST(Sampler, PresencePenaltyCountsOnceFrequencyPenaltyEachTime) {
  auto presence = greedy();
  presence.presence_penalty = 1;
  EXPECT_EQ(choose(presence, {3, 1.9f}, {0, 0}), 0);  // 3 - 1 = 2
  EXPECT_EQ(choose(presence, {3, 2.1f}, {0, 0}), 1);
  auto frequency = greedy();
  frequency.frequency_penalty = 0.5f;
  EXPECT_EQ(choose(frequency, {3, 1.4f}, {0, 0, 0}), 0);  // 3 - 1.5 = 1.5
  EXPECT_EQ(choose(frequency, {3, 1.6f}, {0, 0, 0}), 1);
  frequency.frequency_penalty = -0.5f;
  EXPECT_EQ(choose(frequency, {1, 1.9f}, {0, 0}), 0);  // 1 + 1 = 2
}

TEST(Sampler, BiasComesBeforeThePenalties) {
  auto params = greedy();
  params.logit_bias = {{0, 3.0f}};
  params.repeat_penalty = 4;  // (-1 + 3) / 4 = 0.5; the other way round -1 * 4 + 3 = -1
  EXPECT_EQ(choose(params, {-1, 0.4f}, {0}), 0);
  EXPECT_EQ(choose(params, {-1, 0.6f}, {0}), 1);
}

TEST(Sampler, AForbiddenTokenNeverComes) {
  auto params = plain(100);
  params.logit_bias = {{2, -kInf}};
  auto sampler = Sampler::create(params, 3);
  std::map<TokenId, int> seen;
  for (int i = 0; i < 1000; ++i) ++seen[sampler->sample(std::vector<float>{0, 0, 10})->token];
  EXPECT_EQ(seen.count(2), 0u);
  EXPECT_EQ(seen.size(), 2u);
}

TEST(Sampler, LogprobsAreOfTheRawDistribution) {
  auto params = greedy();
  params.logprobs = true;
  params.n_logprobs = 2;
  params.logit_bias = {{0, 100.0f}};
  params.presence_penalty = 2;
  auto sampler = Sampler::create(params, 3);
  sampler->accept(1);
  const std::vector<float> logits = {std::log(0.125f), std::log(0.5f), std::log(0.375f)};
  const auto sampled = sampler->sample(logits);
  ASSERT_TRUE(sampled);
  EXPECT_EQ(sampled->token, 0);
  EXPECT_NEAR(sampled->logprob, std::log(0.125), 1e-6);
  ASSERT_EQ(sampled->top.size(), 2u);
  EXPECT_EQ(sampled->top[0].token, 1);
  EXPECT_NEAR(sampled->top[0].logprob, std::log(0.5), 1e-6);
  EXPECT_EQ(sampled->top[1].token, 2);
  EXPECT_NEAR(sampled->top[1].logprob, std::log(0.375), 1e-6);
}

TEST(Sampler, LogprobsStayFiniteForLargeLogits) {
  auto params = greedy();
  params.logprobs = true;
  auto sampler = Sampler::create(params, 2);
  const auto sampled = sampler->sample(std::vector<float>{3e38f, -3e38f});
  ASSERT_TRUE(sampled);
  EXPECT_EQ(sampled->logprob, 0.0f);
  EXPECT_TRUE(sampled->top.empty());
}

TEST(Sampler, BrokenLogitsAreRefusedWithTheToken) {
  EXPECT_NE(failure(greedy(), {0, kNaN, 1}).find("no number for the logit of token 1"),
            std::string::npos);
  EXPECT_NE(failure(plain(), {0, 1, kInf}).find("infinity for the logit of token 2"),
            std::string::npos);
  EXPECT_EQ(failure(plain(), {-kInf, -kInf}), "no token is possible: every logit is -inf");
  auto params = greedy();
  params.logit_bias = {{0, -kInf}};
  EXPECT_EQ(failure(params, {1, -kInf}), "no token is possible: every logit is -inf");
}

TEST(Sampler, ParametersOutOfRangeAreRefusedByName) {
  const auto with = [](auto change) {
    SamplerParams params;
    change(params);
    return refusal(params);
  };
  const auto names = [](const std::string& message, const std::string& name) {
    return message.find(name) != std::string::npos;
  };
  for (const float bad : {-0.1f, kNaN, kInf, 101.0f}) {
    EXPECT_TRUE(names(with([&](auto& p) { p.temperature = bad; }), "temperature")) << bad;
    EXPECT_TRUE(names(with([&](auto& p) { p.top_p = bad; }), "top_p")) << bad;
    EXPECT_TRUE(names(with([&](auto& p) { p.min_p = bad; }), "min_p")) << bad;
    EXPECT_TRUE(names(with([&](auto& p) { p.repeat_penalty = bad; }), "repeat_penalty")) << bad;
  }
  for (const float bad : {-101.0f, kNaN, kInf, 101.0f}) {
    EXPECT_TRUE(names(with([&](auto& p) { p.presence_penalty = bad; }), "presence_penalty")) << bad;
    EXPECT_TRUE(names(with([&](auto& p) { p.frequency_penalty = bad; }), "frequency_penalty"))
        << bad;
  }
  EXPECT_TRUE(names(with([](auto& p) { p.top_p = 0; }), "top_p"));
  EXPECT_TRUE(names(with([](auto& p) { p.repeat_penalty = 0; }), "repeat_penalty"));
  EXPECT_TRUE(names(with([](auto& p) { p.n_logprobs = 11; }), "11 alternatives"));
  EXPECT_EQ(with([](auto& p) { p.logit_bias = {{10, 1.0f}}; }),
            "logit bias for token 10, but the vocabulary has tokens 0 to 9");
  EXPECT_TRUE(names(with([](auto& p) { p.logit_bias = {{-1, 1.0f}}; }), "token -1"));
  EXPECT_TRUE(names(with([](auto& p) { p.logit_bias = {{1, kNaN}}; }), "must be -inf or"));
  EXPECT_TRUE(names(with([](auto& p) { p.logit_bias = {{1, kInf}}; }), "must be -inf or"));
  EXPECT_TRUE(names(with([](auto& p) { p.logit_bias = {{1, 1e30f}}; }), "must be -inf or"));
  EXPECT_TRUE(names(with([](auto& p) { p.logit_bias = {{1, 1.0f}, {1, 2.0f}}; }), "two"));
  EXPECT_EQ(refusal(SamplerParams{}), "accepted");
}

}  // namespace
}  // namespace quire
