#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/answer.h"
#include "engine/service/service.h"
#include "sample/stop_matcher.h"

namespace quire {

/// One choice of a request: its tokens, where they are in the cache, and the answer that grows.
class Branch {
 public:
  /// Refuses sampling parameters and stop strings that make no sense.
  static Result<std::unique_ptr<Branch>> create(const ServiceRequest& request, std::size_t choice,
                                                const Engine& engine);
  Branch(const Branch&) = delete;
  Branch& operator=(const Branch&) = delete;

  std::size_t choice() const { return choice_; }
  std::span<const TokenId> tokens() const { return tokens_; }  // the prompt, then what followed
  std::size_t max_length() const { return max_length_; }       // of tokens()

  /// Chooses the token behind the last one from its logits; the answer may end with it.
  void advance(std::span<const float> logits);
  /// Nothing follows. Text that was held back is given out.
  void cancel();
  void break_off(Error error);
  bool ended() const { return ended_; }

  /// Of an answer that has ended.
  FinishReason finish_reason() const { return result_.finish_reason; }
  const std::optional<Error>& error() const { return error_; }
  /// The mean over its tokens, for a choice among answers; needs SamplerParams::logprobs.
  double mean_logprob() const;

  std::size_t n_generated() const { return generated().size(); }
  /// What came since the last call; valid until the next one or advance().
  ChoiceDelta take_delta();

  // What the batch keeps for it.
  SchedId id = 0;
  std::uint64_t arrival = 0;
  std::optional<SequenceId> sequence;  // while it runs
  std::size_t length = 0;              // tokens in the cache
  bool may_adopt = true;               // begins with what the prefix cache has

 private:
  Branch(const ServiceRequest& request, std::size_t choice, const Engine& engine, Sampler sampler,
         StopMatcher stops, std::optional<Grammar> grammar);
  void finish();
  std::span<const SampledToken> generated() const {
    return ended_ ? std::span<const SampledToken>(result_.tokens) : answer_.tokens();
  }

  std::size_t choice_;
  std::vector<TokenId> tokens_;
  std::size_t max_length_;
  GenerateRequest request_;  // what Answer wants to know
  GenerateSink sink_;
  std::optional<Grammar> grammar_;
  Sampler sampler_;
  StopMatcher stops_;
  Answer answer_;
  GenerateResult result_;
  std::optional<Error> error_;
  bool ended_ = false;
  std::string text_;        // not yet taken
  std::string taken_text_;  // what the last delta points at
  std::size_t n_taken_ = 0;
};

}  // namespace quire
