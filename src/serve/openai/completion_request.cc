#include <utility>

#include "serve/openai/json_body.h"
#include "serve/openai/requests.h"

namespace quire::openai {
namespace {

// OpenAI's default of this endpoint.
constexpr std::size_t kDefaultMaxTokens = 16;

void read_completion_fields(FieldReader& fields, const RequestLimits& limits,
                            CompletionRequest& request) {
  GenerationFields& generation = request.generation;
  request.echo = fields.boolean("echo").value_or(false);
  // Nothing but the prompt: only where the prompt is asked for.
  const std::int64_t fewest = request.echo ? 0 : 1;
  const auto most = fields.integer("max_tokens", fewest, limits.max_tokens);
  generation.max_tokens = most ? static_cast<std::size_t>(*most) : kDefaultMaxTokens;

  if (const auto top = fields.integer("logprobs", 0, limits.max_completion_logprobs)) {
    generation.sampling.logprobs = true;
    generation.sampling.n_logprobs = static_cast<std::uint32_t>(*top);
    if (request.echo)
      fields.unsupported("logprobs", "those of a prompt's tokens are not computed ('echo')");
  }
  if (const auto suffix = fields.text("suffix"); suffix && !suffix->empty())
    fields.unsupported("suffix", "nothing is inserted in front of other text");

  const std::size_t n_choices = request.prompts.size() * generation.best_of;
  if (n_choices > limits.max_total_choices) {
    fields.unsupported("n",
                       fmt::format("{} prompts would have {} choices together, but at most {} "
                                   "are computed",
                                   request.prompts.size(), n_choices, limits.max_total_choices));
  }
}

}  // namespace

ApiResult<CompletionRequest> parse_completion(std::string_view body,
                                              const RequestOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto object, parse_body(body));
  FirstError error;
  FieldReader fields(object, "", error);
  CompletionRequest request;
  request.model = read_model(fields);
  request.prompts = read_prompts(fields, "prompt", options.limits.max_prompts);
  read_sampling(fields, options.limits, request.generation);
  read_choices(fields, options.limits, request.generation);
  read_completion_fields(fields, options.limits, request);
  request.constraint = read_format(fields, "response_format", FormatStyle::kChat, options);
  read_constraint_extensions(fields, options, request.constraint);
  ignore_account_fields(fields);
  fields.done();
  if (error.failed()) return fail(error.error());
  return request;
}

}  // namespace quire::openai
