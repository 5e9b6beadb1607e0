#pragma once
// Options that several subcommands share, and the checks that turn a bad value into wrong usage.

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "engine/engine.h"
#include "sample/sampler.h"

namespace CLI {
class Option;
class Validator;
}  // namespace CLI

namespace quire {

/// A number within [min, max]. NaN is in no range.
CLI::Validator number_in(double min, double max);

/// A decimal integer within [min, max], for transform(): what is stored has no leading zeros, which
/// the parser would take for octal.
CLI::Validator integer_in(std::int64_t min, std::int64_t max);

/// The option takes one of these, and says so in the help as "a|b".
CLI::Option* choices_only(CLI::Option* option, std::vector<std::string> choices);

/// The model, the first positional argument.
void add_model_argument(CLI::App& app, std::string& model);

struct EngineFlags {
  std::string model;
  std::string kv_type;  // empty: f16, for the reference f32
  std::string kv_memory;
  bool reference = false;
  EngineOptions numbers;  // the rest lands here directly

  void add_to(CLI::App& app);
  EngineOptions options() const;
};

struct SamplingFlags {
  SamplerParams params;
  std::vector<std::string> biases;
  std::int64_t seed = -1;      // -1: a random one
  std::int64_t logprobs = -1;  // -1: none

  void add_to(CLI::App& app);
  /// With a seed drawn if none was given.
  Result<SamplerParams> resolve() const;
};

/// "15043+1.5", "15043-inf", "15043=-2".
Result<std::pair<TokenId, float>> parse_logit_bias(std::string_view text);

}  // namespace quire
