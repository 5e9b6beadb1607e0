#include "engine/step_cost.h"

#include <algorithm>

namespace quire {
namespace {

/// Other programs only ever make a step slower: what is faster than believed is believed sooner.
constexpr double kFasterWeight = 0.5;
constexpr double kSlowerWeight = 0.1;
/// Steps after which a number of tokens that was not tried again is unknown again, so that one
/// disturbed step does not rule it out for ever.
constexpr std::uint64_t kForgetAfter = 128;

}  // namespace

void StepCost::observe(std::size_t n_tokens, double seconds) {
  if (n_tokens == 0 || !(seconds > 0)) return;
  if (samples_.size() <= n_tokens) samples_.resize(n_tokens + 1);
  ++now_;
  Sample& sample = samples_[n_tokens];
  if (known(n_tokens)) {
    const double weight = seconds < sample.seconds ? kFasterWeight : kSlowerWeight;
    sample.seconds += weight * (seconds - sample.seconds);
  } else {
    sample.seconds = seconds;
  }
  sample.when = now_;
}

bool StepCost::known(std::size_t n_tokens) const {
  if (n_tokens >= samples_.size() || samples_[n_tokens].when == 0) return false;
  // Everything is relative to steps of one token, which guessing itself makes rare.
  return n_tokens == 1 || now_ - samples_[n_tokens].when <= kForgetAfter;
}

double StepCost::relative(std::size_t n_tokens) const {
  const auto extra = [&](std::size_t n) { return row_cost_ * static_cast<double>(n); };
  if (n_tokens <= 1) return 1;
  if (!known(1)) return 1 + extra(n_tokens - 1);
  std::size_t lower = n_tokens;
  while (!known(lower)) --lower;
  std::size_t upper = n_tokens;
  while (upper < samples_.size() && !known(upper)) ++upper;
  const double one = samples_[1].seconds;
  const double below = samples_[lower].seconds / one;
  if (lower == n_tokens) return below;
  if (upper >= samples_.size()) return below + extra(n_tokens - lower);
  const double above = samples_[upper].seconds / one;
  const double share = static_cast<double>(n_tokens - lower) / static_cast<double>(upper - lower);
  return below + share * (above - below);
}

}  // namespace quire
