#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/session.h"
#include "sample/sampler.h"
#include "sample/stop_matcher.h"
#include "text/tokenizer.h"

namespace quire {

/// An answer as it grows: rows of logits in, tokens and text out, until something ends it. It knows
/// nothing of how the rows were computed.
class Answer {
 public:
  /// Everything but `room` is referred to. `room` is how many tokens the context leaves.
  Answer(const GenerateRequest& request, const GenerateSink& sink, const Tokenizer& tokenizer,
         Sampler& sampler, StopMatcher& stops, std::size_t room);

  /// The token after the last one, chosen from its logits. Nothing once the answer has ended.
  std::optional<TokenId> next(std::span<const float> logits);

  /// What was generated is not lost with what could not be.
  void break_off(Error error);

  /// Those chosen so far; moved away by finish().
  std::span<const SampledToken> tokens() const { return tokens_; }

  /// Tokens that may still come.
  std::size_t room() const { return limit_ - tokens_.size(); }

  /// Gives out what text is still held back, and moves text, tokens, reason and error to `result`.
  /// An answer of no tokens that broke off is an error.
  Status finish(GenerateResult& result);

 private:
  Result<SampledToken> sample(std::span<const float> logits);
  void emit(const std::string& text);
  std::optional<TokenId> end(FinishReason reason);

  const GenerateRequest& request_;
  const GenerateSink& sink_;
  const Tokenizer& tokenizer_;
  Sampler& sampler_;
  StopMatcher& stops_;
  StreamDecoder decoder_;
  std::size_t limit_;
  std::vector<SampledToken> tokens_;
  std::string text_;
  bool wanted_ = true;
  FinishReason reason_ = FinishReason::kLength;
  std::optional<Error> error_;
};

}  // namespace quire
