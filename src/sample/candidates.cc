#include "sample/candidates.h"

#include <algorithm>
#include <limits>

#include "sample/portable_math.h"

namespace quire {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

// Appends every token that is not forbidden, by id.
void list_all(std::span<const float> logits, std::vector<Candidate>& out) {
  out.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > kForbidden) out.push_back({static_cast<TokenId>(i), logits[i]});
  }
}

// The probability of a token relative to the best one's.
class Weigher {
 public:
  Weigher(float max, float temperature)
      : max_(static_cast<double>(max)), inverse_(1.0 / static_cast<double>(temperature)) {}
  double operator()(const Candidate& candidate) const {
    return portable_exp((static_cast<double>(candidate.logit) - max_) * inverse_);
  }

 private:
  double max_;
  double inverse_;
};

void weigh_all(const Weigher& weigh, Shortlist& list) {
  list.weights.resize(list.candidates.size());
  list.total = 0;
  for (std::size_t i = 0; i < list.candidates.size(); ++i) {
    list.weights[i] = weigh(list.candidates[i]);
    list.total += list.weights[i];
  }
}

void keep_first(std::size_t n, Shortlist& list) {
  list.candidates.resize(n);
  list.weights.resize(n);
  list.total = 0;
  for (const double w : list.weights) list.total += w;
}

// The nucleus (Holtzman et al. 2019): the fewest best tokens whose probabilities reach top_p.
// Sorts only as far as it has to: most nuclei are a tiny part of the vocabulary.
void cut_top_p(const Weigher& weigh, float top_p, bool sorted, Shortlist& list) {
  const double goal = static_cast<double>(top_p) * list.total;
  auto& candidates = list.candidates;
  std::size_t n_sorted = sorted ? candidates.size() : 0;
  double mass = 0;
  std::size_t kept = 0;
  while (kept < candidates.size() && mass < goal) {
    if (kept == n_sorted) {
      const std::size_t end = std::min(candidates.size(), std::max<std::size_t>(128, 4 * n_sorted));
      const auto first = candidates.begin() + static_cast<std::ptrdiff_t>(n_sorted);
      const auto last = candidates.begin() + static_cast<std::ptrdiff_t>(end);
      if (last != candidates.end()) {
        std::nth_element(first, last, candidates.end(), better_candidate);
      }
      std::sort(first, last, better_candidate);
      for (std::size_t i = n_sorted; i < end; ++i) list.weights[i] = weigh(candidates[i]);
      n_sorted = end;
    }
    mass += list.weights[kept++];
  }
  keep_first(std::max<std::size_t>(kept, 1), list);
}

// Tokens at least min_p times as probable as the best one (Nguyen et al. 2024). The best has
// weight exactly 1.
void cut_min_p(float min_p, Shortlist& list) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < list.candidates.size(); ++i) {
    if (list.weights[i] < static_cast<double>(min_p)) continue;
    list.candidates[kept] = list.candidates[i];
    list.weights[kept] = list.weights[i];
    ++kept;
  }
  keep_first(kept, list);
}

}  // namespace

void select_top(std::span<const float> logits, std::size_t k, std::vector<Candidate>& out) {
  out.clear();
  if (k == 0) return;
  // Collects up to 2k tokens above a rising threshold, then throws the worse half away: the
  // threshold soon rejects nearly everything with one comparison.
  const std::size_t room = k > logits.size() / 2 ? logits.size() : 2 * k;
  float threshold = kForbidden;
  const auto prune = [&] {
    const auto kth = out.begin() + static_cast<std::ptrdiff_t>(k - 1);
    std::nth_element(out.begin(), kth, out.end(), better_candidate);
    threshold = kth->logit;
    out.resize(k);
  };
  for (std::size_t i = 0; i < logits.size(); ++i) {
    // An equal logit with a higher id is worse than the kth already held.
    if (!(logits[i] > threshold)) continue;
    out.push_back({static_cast<TokenId>(i), logits[i]});
    if (out.size() == room && room > k) prune();
  }
  if (out.size() > k) prune();
  std::sort(out.begin(), out.end(), better_candidate);
}

void shortlist(std::span<const float> logits, float max, const Truncation& truncation,
               Shortlist& out) {
  const bool cuts_k = truncation.top_k > 0 && truncation.top_k < logits.size();
  if (cuts_k) {
    select_top(logits, truncation.top_k, out.candidates);
  } else {
    list_all(logits, out.candidates);
  }
  const Weigher weigh(max, truncation.temperature);
  weigh_all(weigh, out);
  if (truncation.top_p < 1.0f) cut_top_p(weigh, truncation.top_p, cuts_k, out);
  if (truncation.min_p > 0.0f) cut_min_p(truncation.min_p, out);
}

}  // namespace quire
