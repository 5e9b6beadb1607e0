#include "engine/prompt_lookup.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

namespace quire {
namespace {

using Tokens = std::vector<TokenId>;

constexpr std::array<std::size_t, 4> kLengths = {8, 4, 3, 2};

struct Match {
  std::optional<std::size_t> source;  // the position after it
  std::size_t length = 0;
};

/// The latest earlier end of the longest n-gram that the text ends with, by looking at all of them.
Match search(const Tokens& text) {
  for (const std::size_t n : kLengths)
    for (std::size_t end = text.size() - std::min<std::size_t>(text.size(), 1); end >= n; --end)
      if (text.size() >= n && std::equal(text.end() - static_cast<std::ptrdiff_t>(n), text.end(),
                                         text.begin() + static_cast<std::ptrdiff_t>(end - n))) {
        Match match{end, 0};
        while (match.length < std::min(end, PromptLookup::kMaxMatch) &&
               text[end - 1 - match.length] == text[text.size() - 1 - match.length])
          ++match.length;
        return match;
      }
  return {};
}

/// What has been guessed since the prompt: how long the match was and whether the guess was right.
using Guesses = std::vector<std::pair<std::size_t, bool>>;

std::size_t bucket(std::size_t match) {
  return match >= 16 ? 4 : match >= 8 ? 3 : match >= 4 ? 2 : match == 3 ? 1 : 0;
}

/// The share of right guesses, the i-th latest counting (31/32)^i, after eight imagined ones.
double rate(const Guesses& guesses, std::size_t match) {
  constexpr std::array<double, 5> kFirst = {0.3, 0.4, 0.55, 0.75, 0.9};
  double right = 0;
  double all = 0;
  double weight = 1;
  for (auto g = guesses.rbegin(); g != guesses.rend(); ++g) {
    if (bucket(g->first) != bucket(match)) continue;
    right += g->second ? weight : 0;
    all += weight;
    weight *= 31.0 / 32.0;
  }
  return (right + 8 * weight * kFirst.at(bucket(match))) / (all + 8 * weight);
}

/// Tokens per cost of a step with k guesses: the sum over j of the chance that j or more are right.
double speed(const Guesses& guesses, std::size_t match, std::size_t k, double row_cost) {
  double yield = 0;
  for (std::size_t j = 0; j <= k; ++j) {
    double right = 1;
    for (std::size_t i = 0; i < j; ++i) right *= rate(guesses, match + i);
    yield += right;
  }
  return yield / (1 + row_cost * static_cast<double>(k));
}

/// The text after `source`, going round when it meets its end.
Tokens copy(const Tokens& text, std::size_t source, std::size_t n) {
  Tokens longer = text;
  for (std::size_t i = 0; i < n; ++i) longer.push_back(longer[source + i]);
  return {longer.end() - static_cast<std::ptrdiff_t>(n), longer.end()};
}

Tokens drafted(PromptLookup& lookup, std::size_t max_tokens) {
  const auto draft = lookup.draft(max_tokens);
  return {draft.begin(), draft.end()};
}

RC_GTEST_PROP(PromptLookup, IsWhatASearchOfTheWholeTextFinds, ()) {
  const auto n_symbols = *rc::gen::element<TokenId>(1, 2, 3, 6, 20);
  const auto symbols = rc::gen::inRange<TokenId>(0, n_symbols);
  const auto prompt = *rc::gen::resize(150, rc::gen::container<Tokens>(symbols));
  const auto answer = *rc::gen::resize(150, rc::gen::container<Tokens>(symbols));
  const double row_cost = *rc::gen::element(0.02, 0.2, 0.7);
  const auto max_tokens = *rc::gen::inRange<std::size_t>(0, 20);
  PromptLookup lookup({.row_cost = row_cost, .learns_cost = false});
  if (*rc::gen::arbitrary<bool>()) {  // an earlier text leaves nothing behind
    lookup.begin(answer);
    for (const TokenId token : prompt) lookup.append(token);
  }
  lookup.begin(prompt);
  Tokens text = prompt;
  Guesses guesses;
  for (std::size_t i = 0;; ++i) {
    const Match match = search(text);
    RC_ASSERT(lookup.source() == match.source);
    RC_ASSERT(lookup.match_length() == match.length);
    const Tokens draft = drafted(lookup, max_tokens);
    RC_ASSERT(draft.size() <= max_tokens);
    if (match.source) {
      RC_ASSERT(draft == copy(text, *match.source, draft.size()));
      const double chosen = speed(guesses, match.length, draft.size(), row_cost);
      for (std::size_t k = 0; k <= max_tokens; ++k)
        RC_ASSERT(speed(guesses, match.length, k, row_cost) <= chosen + 1e-9);
    } else {
      RC_ASSERT(draft.empty());
    }
    if (i == answer.size()) break;
    if (match.source) guesses.emplace_back(match.length, text[*match.source] == answer[i]);
    lookup.append(answer[i]);
    text.push_back(answer[i]);
  }
}

// Long enough for the tables to grow many times.
TEST(NgramIndex, FindsTheLatestOccurrenceInALongText) {
  Tokens text;
  NgramIndex index(3);
  std::uint32_t random = 1;
  std::size_t found = 0;
  for (std::size_t i = 0; i < 6000; ++i) {
    random = random * 1664525u + 1013904223u;
    text.push_back(static_cast<TokenId>((random >> 16) % 17));
    std::optional<std::size_t> expected;
    for (std::size_t end = text.size() - 1; text.size() > 3 && end >= 3 && !expected; --end)
      if (std::equal(text.end() - 3, text.end(),
                     text.begin() + static_cast<std::ptrdiff_t>(end) - 3))
        expected = end;
    ASSERT_EQ(index.append(text), expected) << i;
    found += expected.has_value();
  }
  EXPECT_GT(found, 1000u);
}

TEST(PromptLookup, WithoutRepetitionThereAreNoGuesses) {
  PromptLookup lookup;
  EXPECT_TRUE(lookup.draft(16).empty());
  Tokens prompt(500);
  std::iota(prompt.begin(), prompt.end(), 0);
  lookup.begin(prompt);
  for (TokenId token = 500; token < 600; ++token) {
    EXPECT_TRUE(lookup.draft(16).empty());
    lookup.append(token);
  }
}

TEST(PromptLookup, CopiesMoreTheLongerItWasRight) {
  Tokens prompt(200);
  std::iota(prompt.begin(), prompt.end(), 0);
  PromptLookup lookup({.row_cost = 0.2, .learns_cost = false});
  lookup.begin(prompt);
  std::size_t first = 0;
  std::size_t last = 0;
  for (TokenId token = 50; token < 150; ++token) {
    lookup.append(token);
    last = lookup.draft(16).size();
    if (first == 0) first = last;
  }
  EXPECT_LT(first, 16u);
  EXPECT_EQ(last, 16u);
  EXPECT_EQ(drafted(lookup, 3), (Tokens{150, 151, 152}));
}

TEST(PromptLookup, AGuessThatMeetsThePresentRepeatsItself) {
  PromptLookup lookup({.row_cost = 0.01, .learns_cost = false});
  lookup.begin({});
  for (std::size_t i = 0; i < 40; ++i) lookup.append(i % 2 == 0 ? 7 : 8);
  EXPECT_EQ(drafted(lookup, 5), (Tokens{7, 8, 7, 8, 7}));
}

TEST(PromptLookup, GuessesThatCostMoreThanTheyYieldAreNotMade) {
  Tokens prompt(200);
  std::iota(prompt.begin(), prompt.end(), 0);
  PromptLookup lookup;
  lookup.begin(prompt);
  for (TokenId token = 50; token < 90; ++token) lookup.append(token);
  EXPECT_GT(lookup.draft(16).size(), 4u);
  lookup.step_took(1, 1);
  lookup.step_took(2, 2.1);
  for (std::size_t n = 3; n <= 17; ++n) lookup.step_took(n, 1.0 + static_cast<double>(n));
  EXPECT_TRUE(lookup.draft(16).empty());
  lookup.begin(prompt);  // another text, the same machine
  for (TokenId token = 50; token < 90; ++token) lookup.append(token);
  EXPECT_TRUE(lookup.draft(16).empty());
}

// Pairs that come again and again, followed by something else each time.
TEST(PromptLookup, GuessesThatWereWrongAreNotMade) {
  PromptLookup lookup;
  lookup.begin({});
  std::size_t late = 0;
  for (TokenId i = 0; i < 300; ++i) {
    for (const TokenId token : {1, 2, 1000 + i}) {
      lookup.append(token);
      if (i > 100 && token == 2) late += lookup.draft(16).size();
    }
  }
  EXPECT_TRUE(lookup.source() == std::nullopt);
  EXPECT_EQ(late, 0u);
}

}  // namespace
}  // namespace quire
