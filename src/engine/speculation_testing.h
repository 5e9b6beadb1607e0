#pragma once
// Drafters that are right as often as a test wants, and answers compared in every respect.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/drafter.h"
#include "engine/session_test_support.h"

namespace quire::testing {

/// Knows the answer and guesses `length` tokens, each wrong with a chance of `wrong` percent.
class KnowingDrafter : public Drafter {
 public:
  KnowingDrafter(std::vector<TokenId> answer, std::size_t length, std::uint32_t wrong,
                 TokenId wrong_token = 5)
      : answer_(std::move(answer)), length_(length), wrong_(wrong), wrong_token_(wrong_token) {}

  void begin(std::span<const TokenId> prompt) override {
    n_prompt_ = prompt.size();
    text_.assign(prompt.begin(), prompt.end());
  }
  void append(TokenId token) override { text_.push_back(token); }
  std::span<const TokenId> draft(std::size_t max_tokens) override {
    draft_.clear();
    const std::size_t done = text_.size() - n_prompt_;
    for (std::size_t i = 0; i < std::min(length_, max_tokens); ++i) {
      random_ = random_ * 1664525u + 1013904223u;
      const bool right = (random_ >> 8) % 100 >= wrong_ && done + i < answer_.size();
      draft_.push_back(right ? answer_[done + i] : wrong_token_);
    }
    return draft_;
  }

  const std::vector<TokenId>& text() const { return text_; }  // as it was told

 private:
  std::vector<TokenId> answer_;
  std::size_t length_;
  std::uint32_t wrong_;
  TokenId wrong_token_;
  std::size_t n_prompt_ = 0;
  std::vector<TokenId> text_;
  std::vector<TokenId> draft_;
  std::uint32_t random_ = 7;
};

/// Everything a caller sees of an answer, but the times it took.
struct Seen {
  GenerateResult result;
  std::vector<std::string> pieces;  // as they were streamed
  std::size_t cached = 0;
};

/// Asks a session of its own; `cancel_after` pieces of text it has heard enough.
inline Seen ask(Session& session, const GenerateRequest& request, std::size_t cancel_after = 0) {
  Seen seen;
  auto result = session.generate(request, {.on_text =
                                               [&](std::string_view text) {
                                                 seen.pieces.emplace_back(text);
                                                 return seen.pieces.size() != cancel_after;
                                               },
                                           .on_prefill = {}});
  if (!result) {
    ADD_FAILURE() << result.error().message;
    return seen;
  }
  seen.result = std::move(*result);
  seen.cached = session.cached_tokens();
  return seen;
}

inline void expect_same(const Seen& a, const Seen& b) {
  EXPECT_EQ(ids(a.result), ids(b.result));
  EXPECT_EQ(a.result.text, b.result.text);
  EXPECT_EQ(a.pieces, b.pieces);
  EXPECT_EQ(a.result.finish_reason, b.result.finish_reason);
  EXPECT_EQ(a.result.prompt_tokens, b.result.prompt_tokens);
  EXPECT_EQ(a.result.timings.decode_tokens, b.result.timings.decode_tokens);
  EXPECT_EQ(a.cached, b.cached);
  ASSERT_EQ(a.result.error.has_value(), b.result.error.has_value());
  if (a.result.error) {
    EXPECT_EQ(a.result.error->message, b.result.error->message);
  }
  ASSERT_EQ(a.result.tokens.size(), b.result.tokens.size());
  for (std::size_t i = 0; i < a.result.tokens.size(); ++i) {
    const SampledToken& x = a.result.tokens[i];
    const SampledToken& y = b.result.tokens[i];
    EXPECT_EQ(x.logprob, y.logprob) << "token " << i;
    ASSERT_EQ(x.top.size(), y.top.size());
    for (std::size_t k = 0; k < x.top.size(); ++k) {
      EXPECT_EQ(x.top[k].token, y.top[k].token);
      EXPECT_EQ(x.top[k].logprob, y.top[k].logprob);
    }
  }
}

}  // namespace quire::testing
