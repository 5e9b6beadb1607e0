#include "sample/candidates.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace quire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Probability {
  TokenId token;
  double p;
};

void renormalise(std::vector<Probability>& list) {
  double sum = 0;
  for (const auto& x : list) sum += x.p;
  for (auto& x : list) x.p /= sum;
}

// docs/sampling.md word for word, with full sorts and the standard library's exp.
std::vector<Probability> naive(const std::vector<float>& logits, const Truncation& t) {
  std::vector<Probability> list;
  const double max = *std::max_element(logits.begin(), logits.end());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == -kInfinity) continue;
    list.push_back({static_cast<TokenId>(i),
                    std::exp((logits[i] - max) / static_cast<double>(t.temperature))});
  }
  std::sort(list.begin(), list.end(), [&](const Probability& a, const Probability& b) {
    const float x = logits[static_cast<std::size_t>(a.token)];
    const float y = logits[static_cast<std::size_t>(b.token)];
    return x != y ? x > y : a.token < b.token;
  });
  if (t.top_k > 0 && list.size() > t.top_k) list.resize(t.top_k);
  renormalise(list);
  if (t.top_p < 1) {
    double sum = 0;
    std::size_t n = 0;
    while (n < list.size() && sum < static_cast<double>(t.top_p)) sum += list[n++].p;
    list.resize(n);
    renormalise(list);
  }
  const double floor = static_cast<double>(t.min_p) * list[0].p;
  std::erase_if(list, [&](const Probability& x) { return x.p < floor * (1 - 1e-12); });
  renormalise(list);
  return list;
}

std::vector<Probability> ours(const std::vector<float>& logits, const Truncation& t) {
  Shortlist list;
  shortlist(logits, *std::max_element(logits.begin(), logits.end()), t, list);
  std::vector<Probability> out;
  const bool uncut = list.candidates.empty();
  for (std::size_t i = 0; i < list.weights.size(); ++i) {
    if (uncut && list.weights[i] == 0) continue;  // forbidden, or nearly
    const TokenId token = uncut ? static_cast<TokenId>(i) : list.candidates[i].token;
    out.push_back({token, list.weights[i] / list.total});
  }
  return out;
}

void expect_same(std::vector<Probability> a, std::vector<Probability> b) {
  const auto by_token = [](const Probability& x, const Probability& y) {
    return x.token < y.token;
  };
  std::sort(a.begin(), a.end(), by_token);
  std::sort(b.begin(), b.end(), by_token);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].token, b[i].token);
    ASSERT_NEAR(a[i].p, b[i].p, 1e-12);
  }
}

std::vector<float> normal_logits(std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(n);
  for (auto& x : logits) x = normal(random);
  return logits;
}

std::vector<TokenId> kept_tokens(const std::vector<float>& logits, const Truncation& t) {
  std::vector<TokenId> tokens;
  for (const auto& x : ours(logits, t)) tokens.push_back(x.token);
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

TEST(Shortlist, AgreesWithTheDefinitionOnALargeVocabulary) {
  const auto logits = normal_logits(50000, 1);
  for (const float temperature : {0.3f, 1.0f, 2.0f}) {
    for (const std::uint32_t top_k : {0u, 1u, 40u, 5000u, 49999u, 50000u, 90000u}) {
      for (const float top_p : {1.0f, 0.95f, 0.5f, 0.01f}) {
        for (const float min_p : {0.0f, 0.05f, 1.0f}) {
          const Truncation t{temperature, top_k, top_p, min_p};
          SCOPED_TRACE(testing::Message()
                       << temperature << " " << top_k << " " << top_p << " " << min_p);
          expect_same(ours(logits, t), naive(logits, t));
        }
      }
    }
  }
}

// Probabilities 0.5, 0.25, 0.125, 0.125 at temperature 1.
const std::vector<float> kHalves = {std::log(0.125f), std::log(0.5f), std::log(0.125f),
                                    std::log(0.25f)};

TEST(Shortlist, NucleusIsTheSmallestSetThatReachesTopP) {
  EXPECT_EQ(kept_tokens(kHalves, {1, 0, 0.4f, 0}), (std::vector<TokenId>{1}));
  EXPECT_EQ(kept_tokens(kHalves, {1, 0, 0.6f, 0}), (std::vector<TokenId>{1, 3}));
  EXPECT_EQ(kept_tokens(kHalves, {1, 0, 0.8f, 0}),
            (std::vector<TokenId>{0, 1, 3}));  // tie: lower id
  EXPECT_EQ(kept_tokens(kHalves, {1, 0, 0.99f, 0}), (std::vector<TokenId>{0, 1, 2, 3}));
}

TEST(Shortlist, TopPCountsOnlyWhatTopKLeft) {
  // Of {0.5, 0.25} the first has 2/3: enough for 0.6, which of the whole it would not be.
  EXPECT_EQ(kept_tokens(kHalves, {1, 2, 0.6f, 0}), (std::vector<TokenId>{1}));
}

TEST(Shortlist, TemperatureComesBeforeTopP) {
  // At temperature 0.5 the squares count: 16/22 for the best, so 0.7 needs only that one.
  EXPECT_EQ(kept_tokens(kHalves, {0.5f, 0, 0.7f, 0}), (std::vector<TokenId>{1}));
}

TEST(Shortlist, MinPIsRelativeToTheBest) {
  EXPECT_EQ(kept_tokens(kHalves, {1, 0, 1, 0.3f}), (std::vector<TokenId>{1, 3}));
  EXPECT_EQ(kept_tokens(kHalves, {1, 0, 1, 0.2f}), (std::vector<TokenId>{0, 1, 2, 3}));
}

TEST(Shortlist, ATinyTemperatureIsGreedy) { EXPECT_EQ(ours(kHalves, {1e-40f, 2, 1, 0})[0].p, 1.0); }

TEST(SelectTop, TiesGoToTheLowerIdAndForbiddenTokensAreLeftOut) {
  const std::vector<float> logits = {1, 2, -kInfinity, 2, 2, 0, 1};
  std::vector<Candidate> top;
  select_top(logits, 3, top);
  ASSERT_EQ(top.size(), 3u);
  EXPECT_EQ(top[0].token, 1);
  EXPECT_EQ(top[1].token, 3);
  EXPECT_EQ(top[2].token, 4);
  select_top(logits, 7, top);
  EXPECT_EQ(top.size(), 6u);
  select_top(logits, 0, top);
  EXPECT_TRUE(top.empty());
}

TEST(SelectTop, EqualsAFullSortOfAnything) {
  EXPECT_TRUE(rc::check("select_top equals the head of a full sort", [] {
    // Few distinct values, so that ties are everywhere.
    const auto raw =
        *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(-4, 5)));
    const auto k = *rc::gen::inRange<std::size_t>(0, raw.size() + 3);
    std::vector<float> logits(raw.begin(), raw.end());
    std::vector<TokenId> order(raw.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
      const int x = raw[static_cast<std::size_t>(a)];
      const int y = raw[static_cast<std::size_t>(b)];
      return x != y ? x > y : a < b;
    });
    std::vector<Candidate> top;
    select_top(logits, k, top);
    RC_ASSERT(top.size() == std::min(k, raw.size()));
    for (std::size_t i = 0; i < top.size(); ++i) RC_ASSERT(top[i].token == order[i]);
  }));
}

TEST(Shortlist, AgreesWithTheDefinitionOnAnything) {
  EXPECT_TRUE(rc::check("shortlist equals the naive definition", [] {
    const auto seed = *rc::gen::arbitrary<std::uint32_t>();
    const auto n = *rc::gen::inRange<std::size_t>(1, 400);
    const Truncation t{*rc::gen::element(0.1f, 0.7f, 1.0f, 1.9f), *rc::gen::inRange(0u, 500u),
                       *rc::gen::element(1.0f, 0.9f, 0.5f, 0.1f),
                       *rc::gen::element(0.0f, 0.1f, 0.9f)};
    expect_same(ours(normal_logits(n, seed), t), naive(normal_logits(n, seed), t));
    RC_ASSERT(!testing::Test::HasFatalFailure());
  }));
}

}  // namespace
}  // namespace quire
