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

// Of a machine's instruction sets the widest: no operation here depends on which. (Sanitizers start
// too late for the choice, and other compilers and machines have it their own way.)
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define QUIRE_WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define QUIRE_WIDE
#endif

// Probabilities relative to the best token's. Several at once (-fno-trapping-math).
QUIRE_WIDE void weigh(const float* logits, std::size_t n, double max, double inverse_temperature,
                      double* weights) {
  for (std::size_t i = 0; i < n; ++i)
    weights[i] = portable_exp((static_cast<double>(logits[i]) - max) * inverse_temperature);
}

double sum_of(std::span<const double> weights) {
  double total = 0;
  for (const double w : weights) total += w;
  return total;
}

// The probability of a token relative to the best one's.
class Weigher {
 public:
  Weigher(float max, float temperature)
      : max_(static_cast<double>(max)), inverse_(1.0 / static_cast<double>(temperature)) {}
  double operator()(const Candidate& candidate) const {
    return portable_exp((static_cast<double>(candidate.logit) - max_) * inverse_);
  }
  void all(std::span<const float> logits, std::vector<double>& weights) const {
    weights.resize(logits.size());
    weigh(logits.data(), logits.size(), max_, inverse_, weights.data());
  }

 private:
  double max_;
  double inverse_;
};

void weigh_candidates(const Weigher& weigh, Shortlist& list) {
  list.weights.resize(list.candidates.size());
  for (std::size_t i = 0; i < list.candidates.size(); ++i)
    list.weights[i] = weigh(list.candidates[i]);
  list.total = sum_of(list.weights);
}

// The nucleus (Holtzman et al. 2019): of sorted candidates the fewest whose weights reach `goal`;
// none if all of them do not.
std::size_t nucleus_size(const Shortlist& list, double goal) {
  double mass = 0;
  std::size_t kept = 0;
  while (kept < list.weights.size() && mass < goal) mass += list.weights[kept++];
  return mass < goal ? 0 : std::max<std::size_t>(kept, 1);
}

void keep_first(std::size_t n, Shortlist& list) {
  list.candidates.resize(n);
  list.weights.resize(n);
  list.total = sum_of(list.weights);
}

// Of all tokens. Sorts only as far as it has to: most nuclei are a tiny part of the vocabulary.
void cut_top_p_of_all(const Weigher& weigh, std::span<const float> logits, float top_p,
                      Shortlist& list) {
  weigh.all(logits, list.weights);
  const double goal = static_cast<double>(top_p) * sum_of(list.weights);
  for (std::size_t k = 128;; k *= 4) {
    select_top(logits, k, list.candidates);
    weigh_candidates(weigh, list);
    std::size_t kept = nucleus_size(list, goal);
    // Sums in another order may fall short of the goal by a rounding.
    if (kept == 0 && k >= logits.size()) kept = list.candidates.size();
    if (kept > 0) return keep_first(kept, list);
  }
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
  const Weigher weigh(max, truncation.temperature);
  out.candidates.clear();
  if (truncation.top_k > 0 && truncation.top_k < logits.size()) {
    select_top(logits, truncation.top_k, out.candidates);
    weigh_candidates(weigh, out);
    if (truncation.top_p < 1.0f) {
      const std::size_t kept = nucleus_size(out, static_cast<double>(truncation.top_p) * out.total);
      keep_first(kept == 0 ? out.candidates.size() : kept, out);
    }
  } else if (truncation.top_p < 1.0f) {
    cut_top_p_of_all(weigh, logits, truncation.top_p, out);
  } else if (truncation.min_p > 0.0f) {
    list_all(logits, out.candidates);
    weigh_candidates(weigh, out);
  } else {
    weigh.all(logits, out.weights);
    out.total = sum_of(out.weights);
  }
  if (truncation.min_p > 0.0f) cut_min_p(truncation.min_p, out);
}

}  // namespace quire
