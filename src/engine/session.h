#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "sample/sampler.h"
#include "sample/stop_matcher.h"

namespace quire {

struct GenerateRequest {
  std::vector<TokenId> prompt;  // the whole prompt, BOS and earlier turns included
  std::size_t max_tokens = 0;   // 0: until end of generation or the context is full
  SamplerParams sampling;
  std::vector<std::string> stop;  // none empty
  bool ignore_eos = false;
};

enum class FinishReason : std::uint8_t { kStop, kLength, kCancelled, kError };
std::string_view finish_reason_name(FinishReason reason);

struct GenerateTimings {
  double prefill_s = 0;
  double decode_s = 0;
  std::size_t prefill_tokens = 0;  // computed now; cached ones are not counted
  std::size_t cached_tokens = 0;
  std::size_t decode_tokens = 0;
};

struct GenerateResult {
  std::string text;
  std::vector<SampledToken> tokens;
  std::size_t prompt_tokens = 0;
  FinishReason finish_reason = FinishReason::kLength;
  std::optional<Error> error;  // with kError: why nothing could follow the tokens there are
  GenerateTimings timings;
};

/// What a caller sees while tokens come; return false to cancel.
struct GenerateSink {
  /// After every token: valid UTF-8, stop strings removed, empty while text is held back.
  std::function<bool(std::string_view text)> on_text;
  std::function<bool(std::size_t done, std::size_t total)> on_prefill;  // tokens
};

/// One stream of text over one sequence of the engine that keeps its cache between calls: the next
/// prompt computes only what differs from what is cached.
class Session {
 public:
  explicit Session(Engine& engine);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// An error if there is no answer at all; one that breaks off is a result with kError.
  Result<GenerateResult> generate(const GenerateRequest& request, const GenerateSink& sink = {});

  std::size_t cached_tokens() const { return cached_.size(); }

 private:
  void reuse_prefix(std::span<const TokenId> prompt);
  Result<GenerateResult> decode(const GenerateRequest& request, const GenerateSink& sink,
                                StepLogits logits, Sampler& sampler, StopMatcher& stops,
                                GenerateResult result);

  Engine& engine_;
  SequenceId sequence_;
  std::vector<TokenId> cached_;  // tokens whose K and V the sequence holds
};

}  // namespace quire
