#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::openai {

/// What one request may ask for. Checked while it is read, before any work is done for it.
struct RequestLimits {
  std::size_t max_choices = 16;         // n and best_of, of one prompt
  std::size_t max_total_choices = 128;  // of all prompts of a request
  std::size_t max_prompts = 64;         // of one completions request
  std::size_t max_stops = 16;
  std::size_t max_stop_bytes = 1024;  // of one stop string
  std::int64_t max_tokens = 1'000'000;
  std::size_t max_logit_bias = 1024;  // tokens
  std::int64_t max_top_logprobs = 20;
  std::int64_t max_completion_logprobs = 5;
  std::size_t max_tools = 128;
  std::size_t max_constraint_bytes = std::size_t{256} << 10;  // a schema, regex or grammar
  std::size_t max_embedding_inputs = 2048;
};

/// What the server can do.
struct RequestOptions {
  RequestLimits limits;
  /// response_format other than text, grammar, regex, tools: refused by name without it.
  bool supports_constraints = false;
};

}  // namespace quire::openai
