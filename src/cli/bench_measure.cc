#include "cli/bench_measure.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/stopwatch.h"
#include "sample/random.h"
#include "sample/sampler.h"

namespace quire {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr double kStepCost = 10;  // of a decode step, in prompt tokens; only the bar cares

/// What a case costs, in prompt tokens.
double prepare_cost(const BenchCase& c) { return static_cast<double>(c.n_prefilled() * c.depth); }
double sample_cost(const BenchCase& c) {
  return c.is_prefill
             ? static_cast<double>(c.prompt)
             : static_cast<double>(c.generate) * (kStepCost + static_cast<double>(c.batch));
}

/// Sequences that are released whatever happens.
class Sequences {
 public:
  explicit Sequences(Engine& engine) : engine_(engine) {}
  ~Sequences() { clear(); }
  Sequences(const Sequences&) = delete;
  Sequences& operator=(const Sequences&) = delete;

  SequenceId add(SequenceId id) {
    ids_.push_back(id);
    return id;
  }
  void clear() {
    for (const SequenceId id : ids_) engine_.release(id);
    ids_.clear();
  }
  const std::vector<SequenceId>& ids() const { return ids_; }

 private:
  Engine& engine_;
  std::vector<SequenceId> ids_;
};

class Runner {
 public:
  Runner(Engine& engine, std::span<const BenchCase> cases, const BenchRun& run,
         const BenchProgress& progress, Sampler greedy)
      : engine_(engine),
        run_(run),
        progress_(progress),
        tokens_(engine.tokenizer()),
        greedy_(std::move(greedy)) {
    for (const BenchCase& c : cases) {
      total_ += prepare_cost(c) + sample_cost(c) * static_cast<double>(run.repeat + 1);
    }
  }

  bool has_tokens() const { return !tokens_.empty(); }
  bool stopped() const { return stopped_; }

  Status run(BenchSamples& out) {
    name_ = out.bench_case.name();
    return out.bench_case.is_prefill ? run_prefill(out) : run_decode(out);
  }

 private:
  /// Asked before each pass; `cost` is what was done since the last one.
  bool go_on(double cost) {
    done_ += cost;
    if (progress_ && !progress_(done_ / total_, name_)) stopped_ = true;
    return !stopped_;
  }

  Status prefill(SequenceId sequence, std::span<const TokenId> tokens) {
    std::size_t before = 0;
    QUIRE_RETURN_IF_ERROR(engine_.prefill(sequence, tokens, [&](std::size_t done) {
      return go_on(static_cast<double>(done - std::exchange(before, done)));
    }));
    if (!stopped_) go_on(static_cast<double>(tokens.size() - before));
    return {};
  }

  Status run_prefill(BenchSamples& out) {
    for (std::size_t i = 0; i <= run_.repeat; ++i) {
      const auto tokens = tokens_.take(out.bench_case.prompt);
      Sequences sequences(engine_);
      const SequenceId sequence = sequences.add(engine_.add_sequence());
      const Stopwatch watch;
      QUIRE_RETURN_IF_ERROR(prefill(sequence, tokens));
      const double seconds = watch.seconds();
      if (engine_.kv().length(sequence) < tokens.size()) return {};  // ended before
      if (i > 0) out.seconds.push_back(seconds);
      if (stopped_) return {};
    }
    return {};
  }

  Status run_decode(BenchSamples& out) {
    const BenchCase& c = out.bench_case;
    Sequences filled(engine_);
    for (std::size_t i = 0; i < c.n_prefilled(); ++i) {
      const SequenceId sequence = filled.add(engine_.add_sequence());
      if (c.depth > 0) QUIRE_RETURN_IF_ERROR(prefill(sequence, tokens_.take(c.depth)));
      if (stopped_) return {};
    }
    for (std::size_t i = 0; i <= run_.repeat; ++i) {
      // Forks, so that every repetition begins at the same depth, windows or not.
      Sequences forks(engine_);
      for (std::size_t s = 0; s < c.batch; ++s) {
        const SequenceId parent = filled.ids()[s % c.n_prefilled()];
        QUIRE_ASSIGN_OR_RETURN(const SequenceId child, engine_.fork(parent));
        forks.add(child);
      }
      auto tokens = tokens_.take(c.tokens());
      const Stopwatch watch;
      QUIRE_RETURN_IF_ERROR(decode(forks.ids(), tokens));
      const double seconds = watch.seconds();
      if (stopped_) return {};
      if (i > 0) out.seconds.push_back(seconds);
    }
    return {};
  }

  /// One token of each sequence per step.
  Status decode(std::span<const SequenceId> sequences, std::span<TokenId> tokens) {
    const double cost = kStepCost + static_cast<double>(sequences.size());
    std::vector<StepItem> items(sequences.size());
    for (std::size_t at = 0; at < tokens.size(); at += items.size()) {
      if (!go_on(at == 0 ? 0 : cost)) return {};
      for (std::size_t i = 0; i < items.size(); ++i) {
        items[i] = {.sequence = sequences[i], .tokens = tokens.subspan(at + i, 1)};
      }
      QUIRE_ASSIGN_OR_RETURN(const StepLogits logits, engine_.step(items));
      if (!run_.greedy) continue;
      // The last step's tokens are chosen, too: as many as there are steps.
      const std::size_t next = at + items.size() < tokens.size() ? at + items.size() : at;
      for (std::size_t i = 0; i < items.size(); ++i) {
        QUIRE_ASSIGN_OR_RETURN(const SampledToken sampled, greedy_.sample(logits.row(i)));
        tokens[next + i] = sampled.token;
      }
    }
    done_ += cost;
    return {};
  }

  Engine& engine_;
  BenchRun run_;
  const BenchProgress& progress_;
  RandomTokens tokens_;
  Sampler greedy_;  // has no state that one sequence could leave to another
  std::string name_;
  double total_ = 0;
  double done_ = 0;
  bool stopped_ = false;
};

}  // namespace

std::vector<double> BenchSamples::tokens_per_second() const {
  std::vector<double> out;
  for (const double s : seconds) {
    out.push_back(static_cast<double>(bench_case.tokens()) / std::max(s, 1e-9));
  }
  return out;
}

BenchStatistics statistics(std::vector<double> values) {
  QUIRE_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return {.min = values.front(),
          .median = (values[(n - 1) / 2] + values[n / 2]) / 2,
          .max = values.back()};
}

RandomTokens::RandomTokens(const Tokenizer& tokenizer) {
  const TokenizerData& data = tokenizer.data();
  for (std::size_t i = 0; i < data.tokens.size(); ++i) {
    const TokenKind kind = data.kinds.empty() ? TokenKind::kNormal : data.kinds[i];
    if (kind == TokenKind::kNormal) ids_.push_back(static_cast<TokenId>(i));
  }
}

std::vector<TokenId> RandomTokens::take(std::size_t n) {
  std::vector<TokenId> out(n);
  for (TokenId& id : out) {
    const double at = uniform_draw(kSeed, drawn_++) * static_cast<double>(ids_.size());
    id = ids_[static_cast<std::size_t>(at)];
  }
  return out;
}

Result<std::vector<BenchSamples>> run_cases(Engine& engine, std::span<const BenchCase> cases,
                                            const BenchRun& run, const BenchProgress& progress) {
  std::vector<BenchSamples> out;
  SamplerParams params;
  params.temperature = 0;
  QUIRE_ASSIGN_OR_RETURN(Sampler greedy, Sampler::create(params, engine.spec().n_vocab));
  Runner runner(engine, cases, run, progress, std::move(greedy));
  if (!runner.has_tokens()) {
    return fail(ErrorCode::kUnsupported, "the vocabulary has no ordinary token to compute with");
  }
  for (const BenchCase& c : cases) {
    BenchSamples samples{.bench_case = c, .seconds = {}};
    if (auto status = runner.run(samples); !status) {
      return fail(status.error().code, "{}: {}", c.name(), status.error().message);
    }
    if (!samples.seconds.empty()) out.push_back(std::move(samples));
    if (runner.stopped()) break;
  }
  return out;
}

}  // namespace quire
