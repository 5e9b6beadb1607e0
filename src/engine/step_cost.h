#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire {

/// What a step of several tokens costs beside a step of one, learned from the steps that are taken.
/// It depends on the machine, its instruction set, the model and the threads; nothing but time
/// depends on it.
class StepCost {
 public:
  /// `row_cost`: what one more token is believed to cost, as a share of a step of one token, where
  /// nothing is known.
  explicit StepCost(double row_cost) : row_cost_(row_cost) {}

  void observe(std::size_t n_tokens, double seconds);

  /// Of n_tokens, at least 1, in steps of one token: 1 for one.
  double relative(std::size_t n_tokens) const;

 private:
  struct Sample {
    double seconds = 0;
    std::uint64_t when = 0;  // 0: never
  };
  bool known(std::size_t n_tokens) const;

  double row_cost_;
  std::vector<Sample> samples_;  // by the number of tokens
  std::uint64_t now_ = 0;        // steps so far
};

}  // namespace quire
