#pragma once
// Runs the cases of `quire bench` on an engine and takes their times.

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "cli/bench_cases.h"

namespace quire {

struct BenchSamples {
  BenchCase bench_case;
  std::vector<double> seconds;  // of each repetition

  std::vector<double> tokens_per_second() const;
};

struct BenchStatistics {
  double min = 0;
  double median = 0;  // of an even number of values the mean of the middle two
  double max = 0;
};

/// `values` must not be empty.
BenchStatistics statistics(std::vector<double> values);

/// Any tokens but control and unused ones, always the same.
class RandomTokens {
 public:
  explicit RandomTokens(const Tokenizer& tokenizer);
  bool empty() const { return ids_.empty(); }  // the vocabulary has none
  std::vector<TokenId> take(std::size_t n);

 private:
  std::vector<TokenId> ids_;
  std::uint64_t drawn_ = 0;
};

struct BenchRun {
  std::size_t repeat = 5;
  bool greedy = false;  // decode the likeliest tokens, chosen as `quire run` does, not given ones
};

/// Asked before each forward pass; `case_name` is the case in progress. False ends it.
using BenchProgress = std::function<bool(double done, std::string_view case_name)>;

/// Each case once to warm up, then `run.repeat` times. When `progress` ends it, what was measured
/// until then is returned; an error names its case.
Result<std::vector<BenchSamples>> run_cases(Engine& engine, std::span<const BenchCase> cases,
                                            const BenchRun& run, const BenchProgress& progress);

}  // namespace quire
