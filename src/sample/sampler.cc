#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "base/check.h"
#include "sample/portable_math.h"
#include "sample/random.h"

namespace quire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMaxLogit = std::numeric_limits<float>::max();

// NaN fails every comparison, so it is outside every range.
Status check_range(const char* name, float value, float min, float max) {
  if (value >= min && value <= max) return {};
  return fail(ErrorCode::kInvalidArgument, "{} must be between {} and {}, not {}", name, min, max,
              value);
}

Status check_bias(std::span<const std::pair<TokenId, float>> biases, std::size_t vocab_size) {
  std::set<TokenId> tokens;
  for (const auto& [token, bias] : biases) {
    if (token < 0 || static_cast<std::size_t>(token) >= vocab_size) {
      return fail(ErrorCode::kInvalidArgument,
                  "logit bias for token {}, but the vocabulary has tokens 0 to {}", token,
                  vocab_size - 1);
    }
    if (bias != -kInfinity && !(std::abs(bias) <= 1000.0f)) {
      return fail(ErrorCode::kInvalidArgument,
                  "logit bias of token {} must be -inf or between -1000 and 1000, not {}", token,
                  bias);
    }
    if (!tokens.insert(token).second) {
      return fail(ErrorCode::kInvalidArgument, "token {} has two logit biases", token);
    }
  }
  return {};
}

// The largest logit. A NaN or +inf means that the forward pass went wrong: no guess is made.
Result<float> check_logits(std::span<const float> logits) {
  float max = -kInfinity;
  bool bad = false;
  for (const float x : logits) {
    bad |= !(x <= kMaxLogit);
    max = x > max ? x : max;
  }
  if (bad) {
    const auto at =
        std::find_if(logits.begin(), logits.end(), [](float x) { return !(x <= kMaxLogit); });
    return fail(
        ErrorCode::kInvalidData,
        "the model computed {} for the logit of token {}: its weights are damaged, or values "
        "grew beyond what floats hold",
        std::isnan(*at) ? "no number" : "infinity", at - logits.begin());
  }
  if (max == -kInfinity) {
    return fail(ErrorCode::kInvalidData, "no token is possible: every logit is -inf");
  }
  return max;
}

void forbid_others(std::span<const std::uint32_t> allowed, std::span<float> logits) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const std::uint32_t word = i / 32 < allowed.size() ? allowed[i / 32] : 0;
    if ((word >> (i % 32) & 1u) == 0) logits[i] = -kInfinity;
  }
}

float to_logit(double x) {
  return static_cast<float>(
      std::clamp(x, -static_cast<double>(kMaxLogit), static_cast<double>(kMaxLogit)));
}

}  // namespace

Result<Sampler> Sampler::create(SamplerParams params, std::size_t vocab_size) {
  QUIRE_CHECK(vocab_size > 0);
  QUIRE_RETURN_IF_ERROR(check_range("temperature", params.temperature, 0.0f, 100.0f));
  if (!(params.top_p > 0.0f && params.top_p <= 1.0f)) {
    return fail(ErrorCode::kInvalidArgument, "top_p must be above 0 and at most 1, not {}",
                params.top_p);
  }
  QUIRE_RETURN_IF_ERROR(check_range("min_p", params.min_p, 0.0f, 1.0f));
  QUIRE_RETURN_IF_ERROR(check_range("repeat_penalty", params.repeat_penalty, 0.01f, 100.0f));
  QUIRE_RETURN_IF_ERROR(check_range("presence_penalty", params.presence_penalty, -100.0f, 100.0f));
  QUIRE_RETURN_IF_ERROR(
      check_range("frequency_penalty", params.frequency_penalty, -100.0f, 100.0f));
  QUIRE_RETURN_IF_ERROR(check_bias(params.logit_bias, vocab_size));
  if (params.n_logprobs > vocab_size) {
    return fail(ErrorCode::kInvalidArgument,
                "{} alternatives per token asked for, but the vocabulary has {} tokens",
                params.n_logprobs, vocab_size);
  }
  return Sampler(std::move(params), vocab_size);
}

Sampler::Sampler(SamplerParams params, std::size_t vocab_size)
    : params_(std::move(params)), counts_(vocab_size) {}

void Sampler::accept(TokenId token) {
  QUIRE_CHECK(token >= 0 && static_cast<std::size_t>(token) < counts_.size());
  if (counts_[static_cast<std::size_t>(token)]++ == 0) seen_.push_back(token);
}

std::span<const float> Sampler::adjust(std::span<const float> logits,
                                       std::span<const std::uint32_t> allowed) {
  const bool penalises = params_.repeat_penalty != 1.0f || params_.presence_penalty != 0.0f ||
                         params_.frequency_penalty != 0.0f;
  if (params_.logit_bias.empty() && allowed.empty() && !(penalises && !seen_.empty()))
    return logits;

  adjusted_.assign(logits.begin(), logits.end());
  if (!allowed.empty()) forbid_others(allowed, adjusted_);
  for (const auto& [token, bias] : params_.logit_bias) {
    float& logit = adjusted_[static_cast<std::size_t>(token)];
    if (logit == -kInfinity) continue;
    logit = bias == -kInfinity ? bias
                               : to_logit(static_cast<double>(logit) + static_cast<double>(bias));
  }
  if (!penalises) return adjusted_;
  const double repeat = static_cast<double>(params_.repeat_penalty);
  for (const TokenId token : seen_) {
    const auto i = static_cast<std::size_t>(token);
    if (adjusted_[i] == -kInfinity) continue;
    double x = static_cast<double>(adjusted_[i]);
    x = x > 0 ? x / repeat : x * repeat;
    x -= static_cast<double>(counts_[i]) * static_cast<double>(params_.frequency_penalty);
    x -= static_cast<double>(params_.presence_penalty);
    adjusted_[i] = to_logit(x);
  }
  return adjusted_;
}

TokenId Sampler::draw(std::span<const float> logits, float max) {
  shortlist(logits, max, {params_.temperature, params_.top_k, params_.top_p, params_.min_p},
            shortlist_);
  const double goal = uniform_draw(params_.seed, draws_++) * shortlist_.total;
  double mass = 0;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < shortlist_.weights.size(); ++i) {
    if (shortlist_.weights[i] == 0) continue;
    chosen = i;
    mass += shortlist_.weights[i];
    if (mass > goal) break;
  }
  if (shortlist_.candidates.empty()) return static_cast<TokenId>(chosen);
  return shortlist_.candidates[chosen].token;
}

void Sampler::report_logprobs(std::span<const float> logits, float max, SampledToken& sampled) {
  double sum = 0;
  for (const float x : logits) {
    sum += portable_exp(static_cast<double>(x) - static_cast<double>(max));
  }
  const double log_sum = static_cast<double>(max) + portable_log(sum);
  const auto logprob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - log_sum);
  };
  sampled.logprob = logprob(logits[static_cast<std::size_t>(sampled.token)]);
  select_top(logits, params_.n_logprobs, top_);
  for (const Candidate& c : top_) sampled.top.push_back({c.token, logprob(c.logit)});
}

Result<SampledToken> Sampler::sample(std::span<const float> logits,
                                     std::span<const std::uint32_t> allowed) {
  QUIRE_CHECK(logits.size() == counts_.size());
  QUIRE_ASSIGN_OR_RETURN(const float raw_max, check_logits(logits));
  const auto adjusted = adjust(logits, allowed);
  float max = raw_max;
  if (adjusted.data() != logits.data()) {
    QUIRE_ASSIGN_OR_RETURN(max, check_logits(adjusted));
  }

  SampledToken sampled;
  if (params_.temperature == 0.0f) {
    const auto best = std::find(adjusted.begin(), adjusted.end(), max);  // the lowest id of a tie
    sampled.token = static_cast<TokenId>(best - adjusted.begin());
  } else {
    sampled.token = draw(adjusted, max);
  }
  if (params_.logprobs) report_logprobs(logits, raw_max, sampled);
  return sampled;
}

}  // namespace quire
