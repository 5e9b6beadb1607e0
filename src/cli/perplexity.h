#pragma once
// How well a model predicts a text. docs/cli.md defines every figure.

#include <cstddef>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "engine/engine.h"

namespace quire {

/// Tokens [begin, end) are run from an empty cache; tokens [first_scored, end) are predicted and
/// scored, each from all the tokens of the window before it.
struct ScoreWindow {
  std::size_t begin = 0;
  std::size_t first_scored = 0;
  std::size_t end = 0;
  friend bool operator==(const ScoreWindow&, const ScoreWindow&) = default;
};

/// Windows of `context` tokens, `stride` apart; what would not fill one is left out. A token is
/// scored in the first window that has it in its second half, position context / 2 excepted: the
/// windows of llama.cpp's perplexity tool when stride == context. context >= 4, stride >= 1.
std::vector<ScoreWindow> plan_windows(std::size_t n_tokens, std::size_t context,
                                      std::size_t stride);

/// Sums of one model over the scored tokens; in nats.
struct Score {
  std::size_t tokens = 0;
  double nll = 0;
  double nll_squares = 0;

  double perplexity() const;
  double perplexity_error() const;  // standard error of the above
};

/// What two models say of the same tokens: `reference` is right, `fast` approximates it.
struct Divergence {
  std::vector<double> kl;    // KL(reference || fast) of every scored token, in nats
  std::size_t same_top = 0;  // both have the same best token

  double mean() const;
  double quantile(double q) const;
};

class Evaluation {
 public:
  /// `reference` is null for a perplexity alone.
  Evaluation(Engine& engine, Engine* reference, std::size_t n_threads);

  /// Adds one window. `tokens` is the whole text.
  Status add(std::span<const TokenId> tokens, const ScoreWindow& window);

  /// Whether every figure that follows from the scores is a number: a perplexity is too large for
  /// one from 710 nats per token on.
  Status check_figures() const;

  const Score& score() const { return score_; }
  const Score& reference_score() const { return reference_score_; }
  const Divergence& divergence() const { return divergence_; }

 private:
  void score_rows(const StepLogits& logits, const StepLogits* reference,
                  std::span<const TokenId> targets);

  Engine& engine_;
  Engine* reference_;
  ThreadPool pool_;
  Score score_;
  Score reference_score_;
  Divergence divergence_;
};

}  // namespace quire
