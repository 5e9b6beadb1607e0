#include "cli/perplexity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "sample/portable_math.h"

namespace quire {
namespace {

// Rows of logits at once: a quarter of a million tokens times four bytes times this.
constexpr std::size_t kScoreChunk = 64;

/// The sum of term(i) over [0, n) in eight chains, which a compiler may compute side by side.
template <typename Term>
double sum_of(std::size_t n, Term term) {
  constexpr std::size_t kChains = 8;
  std::array<double, kChains> sums{};
  std::size_t i = 0;
  for (; i + kChains <= n; i += kChains)
    for (std::size_t c = 0; c < kChains; ++c) sums[c] += term(i + c);
  for (; i < n; ++i) sums[0] += term(i);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

/// A distribution by its logits: p_i = weight(i) / sum.
struct Softmax {
  explicit Softmax(std::span<const float> x)
      : logits(x), max(static_cast<double>(*std::ranges::max_element(x))) {
    sum = sum_of(x.size(), [at = x.data(), top = max](std::size_t i) {
      return portable_exp(static_cast<double>(at[i]) - top);
    });
  }
  double log_sum_exp() const { return max + portable_log(sum); }
  double nll(std::size_t i) const { return log_sum_exp() - static_cast<double>(logits[i]); }

  std::span<const float> logits;
  double max;
  double sum;
};

/// KL(p || q): the mean under p of p's logit less q's, less the difference of their log-sum-exps.
double kl_divergence(const Softmax& p, const Softmax& q) {
  const double weighted = sum_of(
      p.logits.size(), [x = p.logits.data(), y = q.logits.data(), top = p.max](std::size_t i) {
        const double weight = portable_exp(static_cast<double>(x[i]) - top);
        const double difference = static_cast<double>(x[i]) - static_cast<double>(y[i]);
        return weight > 0 ? weight * difference : 0.0;  // where p is zero q may be so too
      });
  const double kl = weighted / p.sum - (p.log_sum_exp() - q.log_sum_exp());
  return std::max(kl, 0.0);  // rounding
}

std::ptrdiff_t argmax(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

void add(Score& score, double nll) {
  ++score.tokens;
  score.nll += nll;
  score.nll_squares += nll * nll;
}

// A sequence that is given back however the window ends.
class Sequence {
 public:
  explicit Sequence(Engine* engine) : engine_(engine) {
    if (engine_) id_ = engine_->add_sequence();
  }
  ~Sequence() {
    if (engine_) engine_->release(id_);
  }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  Result<StepLogits> step(std::span<const TokenId> tokens, LogitsWanted wanted) {
    if (!engine_) return StepLogits{};
    const StepItem item{.sequence = id_, .tokens = tokens, .logits = wanted};
    return engine_->step({&item, 1});
  }

 private:
  Engine* engine_;
  SequenceId id_;
};

}  // namespace

std::vector<ScoreWindow> plan_windows(std::size_t n_tokens, std::size_t context,
                                      std::size_t stride) {
  QUIRE_CHECK(context >= 4 && stride >= 1);
  std::vector<ScoreWindow> windows;
  std::size_t scored_end = 0;
  for (std::size_t begin = 0; begin + context <= n_tokens; begin += stride) {
    const std::size_t end = begin + context;
    windows.push_back({begin, std::max(begin + context / 2 + 1, scored_end), end});
    scored_end = end;
  }
  return windows;
}

double Score::perplexity() const { return std::exp(nll / static_cast<double>(tokens)); }

double Score::perplexity_error() const {
  if (tokens < 2) return 0;
  const auto n = static_cast<double>(tokens);
  const double mean = nll / n;
  const double variance = std::max(0.0, nll_squares / n - mean * mean);
  return perplexity() * std::sqrt(variance / (n - 1));  // the delta method
}

double Divergence::mean() const {
  double sum = 0;
  for (const double x : kl) sum += x;
  return kl.empty() ? 0 : sum / static_cast<double>(kl.size());
}

double Divergence::quantile(double q) const {
  if (kl.empty()) return 0;
  auto sorted = kl;
  const auto at = static_cast<std::ptrdiff_t>(q * static_cast<double>(sorted.size() - 1));
  std::nth_element(sorted.begin(), sorted.begin() + at, sorted.end());
  return sorted[static_cast<std::size_t>(at)];
}

Evaluation::Evaluation(Engine& engine, Engine* reference, std::size_t n_threads)
    : engine_(engine), reference_(reference), pool_(n_threads) {}

Status Evaluation::add(std::span<const TokenId> tokens, const ScoreWindow& window) {
  // The last token of the window is only predicted, so it need not be run.
  const auto run = tokens.subspan(window.begin, window.end - 1 - window.begin);
  std::vector<TokenId> inputs(run.begin(), run.end());
  const auto& data = engine_.tokenizer().data();
  if (data.add_bos && data.bos) inputs.front() = *data.bos;

  Sequence fast(&engine_);
  Sequence exact(reference_);
  const std::size_t first_row = window.first_scored - 1 - window.begin;
  std::size_t done = 0;
  while (done < inputs.size()) {
    const bool scores = done >= first_row;
    const std::size_t end =
        scores
            ? std::min(inputs.size(), done + std::min(kScoreChunk, engine_.options().prefill_chunk))
            : std::min(first_row, done + engine_.options().prefill_chunk);
    const auto part = std::span<const TokenId>(inputs).subspan(done, end - done);
    const LogitsWanted wanted = scores ? LogitsWanted::kAll : LogitsWanted::kNone;
    QUIRE_ASSIGN_OR_RETURN(const auto logits, fast.step(part, wanted));
    QUIRE_ASSIGN_OR_RETURN(const auto exact_logits, exact.step(part, wanted));
    if (scores) {
      score_rows(logits, reference_ ? &exact_logits : nullptr,
                 tokens.subspan(window.begin + done + 1, part.size()));
    }
    done = end;
  }
  if (!std::isfinite(score_.nll + reference_score_.nll)) {
    return fail(ErrorCode::kInvalidData,
                "the model's logits are not finite somewhere in tokens {} to {} of the text",
                window.begin, window.end - 1);
  }
  return {};
}

Status Evaluation::check_figures() const {
  const auto check = [](const Score& score, std::string_view whose) -> Status {
    if (std::isfinite(score.perplexity()) && std::isfinite(score.perplexity_error())) return {};
    return fail(ErrorCode::kInvalidData,
                "the perplexity{} is too large for a number: {:.6g} nats per token over {} tokens",
                whose, score.nll / static_cast<double>(score.tokens), score.tokens);
  };
  QUIRE_RETURN_IF_ERROR(check(score_, ""));
  if (reference_) {
    QUIRE_RETURN_IF_ERROR(check(reference_score_, " of the reference"));
    if (!std::isfinite(score_.perplexity() / reference_score_.perplexity()) ||
        !std::isfinite(divergence_.mean()))
      return fail(ErrorCode::kInvalidData,
                  "the distance to the reference is too large for a number");
  }
  return {};
}

void Evaluation::score_rows(const StepLogits& logits, const StepLogits* reference,
                            std::span<const TokenId> targets) {
  struct Row {
    double nll = 0, reference_nll = 0, kl = 0;
    bool same_top = false;
  };
  std::vector<Row> rows(targets.size());
  pool_.run([&](ThreadPool::Worker& worker) {
    const Range share = worker.share(rows.size());
    for (std::size_t i = share.begin; i < share.end; ++i) {
      const auto target = static_cast<std::size_t>(targets[i]);
      const Softmax fast(logits.row(i));
      rows[i].nll = fast.nll(target);
      if (!reference) continue;
      const Softmax exact(reference->row(i));
      rows[i].reference_nll = exact.nll(target);
      rows[i].kl = kl_divergence(exact, fast);
      rows[i].same_top = argmax(exact.logits) == argmax(fast.logits);
    }
  });
  for (const Row& row : rows) {  // in order, whatever the number of threads
    quire::add(score_, row.nll);
    if (!reference) continue;
    quire::add(reference_score_, row.reference_nll);
    divergence_.kl.push_back(row.kl);
    divergence_.same_top += row.same_top ? 1 : 0;
  }
}

}  // namespace quire
