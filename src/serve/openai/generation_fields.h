#pragma once
// What every endpoint that generates has in common.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sample/sampler.h"
#include "serve/openai/json_reader.h"
#include "serve/openai/limits.h"

namespace quire::openai {

/// OpenAI's defaults, not the command line's: the model's own distribution.
inline SamplerParams default_sampling() {
  SamplerParams params;
  params.temperature = 1.0f;
  params.top_k = 0;
  params.top_p = 1.0f;
  params.min_p = 0.0f;
  return params;
}

struct GenerationFields {
  SamplerParams sampling = default_sampling();  // but for its seed
  std::optional<std::uint64_t> seed;
  std::size_t n = 1;
  std::size_t best_of = 1;  // >= n
  std::vector<std::string> stop;
  bool ignore_eos = false;
  std::optional<std::size_t> max_tokens;  // nothing: until the context is full
  std::int32_t priority = 0;
  std::string cache_salt;
  bool stream = false;
  bool include_usage = false;  // of a stream: the others always say
};

/// Temperature, top_p, top_k, min_p, penalties, seed, logit_bias, ignore_eos, priority, cache_salt,
/// and refusal of beam search: what all endpoints name alike.
void read_sampling(FieldReader& fields, const RequestLimits& limits, GenerationFields& out);

/// n, best_of, stop, stream and stream_options, as chat completions and completions have them.
void read_choices(FieldReader& fields, const RequestLimits& limits, GenerationFields& out);

/// Fields of OpenAI's that change no answer of a local model: user, metadata, store, ...
void ignore_account_fields(FieldReader& fields);

}  // namespace quire::openai
