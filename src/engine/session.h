#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/drafter.h"
#include "engine/engine.h"
#include "sample/sampler.h"
#include "text/grammar.h"

namespace quire {

struct GenerateRequest {
  std::vector<TokenId> prompt;  // the whole prompt, BOS and earlier turns included
  std::size_t max_tokens = 0;   // 0: until end of generation or the context is full
  SamplerParams sampling;
  std::vector<std::string> stop;  // none empty
  bool ignore_eos = false;
  Grammar* grammar = nullptr;  // what the answer has to look like; none: anything. Not owned
  /// Guesses tokens that a step then verifies together, at most max_draft; null: none. Not owned.
  /// The answer is the same to the bit, cached tokens included.
  Drafter* drafter = nullptr;
  std::size_t max_draft = 16;
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

struct SpeculationCounts {
  std::size_t steps = 0;     // forward passes that had guesses in them
  std::size_t drafted = 0;   // guessed tokens
  std::size_t accepted = 0;  // those that were right
};

struct GenerateResult {
  std::string text;
  std::vector<SampledToken> tokens;
  std::size_t prompt_tokens = 0;
  FinishReason finish_reason = FinishReason::kLength;
  std::optional<Error> error;  // with kError: why nothing could follow the tokens there are
  GenerateTimings timings;
  std::optional<SpeculationCounts> speculation;  // with a drafter
};

/// What a caller sees while tokens come; return false to cancel. Called in the middle of a step:
/// the engine must not be called from here.
struct GenerateSink {
  /// After every token: valid UTF-8, stop strings removed, empty while text is held back.
  std::function<bool(std::string_view text)> on_text;
  std::function<bool(std::size_t done, std::size_t total)> on_prefill;  // tokens
};

class Answer;

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
  /// Computes `token` and what may follow it, and puts the next token to compute in its place.
  Status advance(const GenerateRequest& request, Answer& answer, std::optional<TokenId>& token,
                 GenerateResult& result);

  Engine& engine_;
  SequenceId sequence_;
  std::vector<TokenId> cached_;  // tokens whose K and V the sequence holds
};

}  // namespace quire
