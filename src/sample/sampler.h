#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "sample/candidates.h"

namespace quire {

struct SamplerParams {
  float temperature = 0.8f;       // 0: greedy
  std::uint32_t top_k = 40;       // 0: off
  float top_p = 0.95f;            // 1: off
  float min_p = 0.05f;            // 0: off
  float repeat_penalty = 1.0f;    // 1: off (CTRL, Keskar et al. 2019)
  float presence_penalty = 0.0f;  // OpenAI's definition
  float frequency_penalty = 0.0f;
  std::uint64_t seed = 0;
  std::vector<std::pair<TokenId, float>> logit_bias;  // -inf forbids, added before anything else
  bool logprobs = false;         // report SampledToken::logprob; costs a pass over the vocabulary
  std::uint32_t n_logprobs = 0;  // and with it this many alternatives per token
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
};

struct SampledToken {
  TokenId token = 0;
  float logprob = 0;              // if asked for: of the raw model distribution (docs/sampling.md)
  std::vector<TokenLogprob> top;  // best first, n_logprobs of them
};

/// Chooses tokens of one sequence. Same parameters, logits and history give the same tokens on
/// every machine: the random numbers and the transforms are our own, not the standard library's.
class Sampler {
 public:
  /// Refuses parameters out of range (NaN, negative temperature, top_p outside (0, 1], a bias for
  /// a token the vocabulary lacks …).
  static Result<Sampler> create(SamplerParams params, std::size_t vocab_size);

  /// Tokens of the prompt count for penalties too.
  void accept(TokenId token);

  /// logits [vocab_size], unchanged. Does not accept() the token. A NaN or +inf among the logits
  /// is an error, and so is a distribution with no finite logit left.
  /// `allowed`, if not empty: only tokens t with bit t % 32 of word t / 32 may be chosen.
  Result<SampledToken> sample(std::span<const float> logits,
                              std::span<const std::uint32_t> allowed = {});

 private:
  explicit Sampler(SamplerParams params, std::size_t vocab_size);
  /// What is not allowed taken out, logit bias, then penalties; `logits` itself if there is nothing
  /// to do.
  std::span<const float> adjust(std::span<const float> logits,
                                std::span<const std::uint32_t> allowed);
  TokenId draw(std::span<const float> logits, float max);
  void report_logprobs(std::span<const float> logits, float max, SampledToken& sampled);

  SamplerParams params_;
  std::vector<std::uint32_t> counts_;  // occurrences of each token so far
  std::vector<TokenId> seen_;
  std::uint64_t draws_ = 0;
  std::vector<float> adjusted_;  // scratch, as are the two below
  Shortlist shortlist_;
  std::vector<Candidate> top_;
};

}  // namespace quire
