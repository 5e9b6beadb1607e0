#pragma once
// From adjusted logits to the few tokens that may be drawn, in time linear in the vocabulary.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace quire {

struct Candidate {
  TokenId token = 0;
  float logit = 0;
};

/// Higher logit first, lower id first among equals: a total order, so every selection is unique.
inline bool better_candidate(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

/// The `k` best of `logits` (fewer if fewer are above -inf), best first. No NaN.
void select_top(std::span<const float> logits, std::size_t k, std::vector<Candidate>& out);

struct Truncation {
  float temperature = 1.0f;  // > 0
  std::uint32_t top_k = 0;   // 0: off
  float top_p = 1.0f;        // 1: off
  float min_p = 0.0f;        // 0: off
};

/// What is left of a distribution: token candidates[i] has probability weights[i] / total. Without
/// candidates nothing was cut, and weights[i] is that of token i, 0 for a forbidden one.
struct Shortlist {
  std::vector<Candidate> candidates;
  std::vector<double> weights;
  double total = 0;
};

/// temperature -> top-k -> top-p -> min-p, as docs/sampling.md defines them. `max` is the largest
/// logit, finite. Candidates are sorted best first, unless only min-p cut: then by id.
void shortlist(std::span<const float> logits, float max, const Truncation& truncation,
               Shortlist& out);

}  // namespace quire
