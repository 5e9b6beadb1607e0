#include <utility>

#include "serve/openai/json_body.h"
#include "serve/openai/requests.h"

namespace quire::openai {
namespace {

// Two names for one thing: the newer is OpenAI's for models that think.
void read_max_tokens(FieldReader& fields, const RequestLimits& limits, GenerationFields& out) {
  const auto old_name = fields.integer("max_tokens", 1, limits.max_tokens);
  const auto new_name = fields.integer("max_completion_tokens", 1, limits.max_tokens);
  if (old_name && new_name && *old_name != *new_name)
    fields.unsupported("max_tokens", "'max_completion_tokens' says something else");
  if (const auto most = new_name ? new_name : old_name)
    out.max_tokens = static_cast<std::size_t>(*most);
}

void read_logprobs(FieldReader& fields, const RequestLimits& limits, SamplerParams& sampling) {
  sampling.logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, limits.max_top_logprobs);
  if (!top) return;
  if (!sampling.logprobs)
    fields.unsupported("top_logprobs", "it is only allowed when 'logprobs' is true");
  sampling.n_logprobs = static_cast<std::uint32_t>(*top);
}

void refuse_what_only_others_can(FieldReader& fields) {
  fields.refuse("audio", "only text is");
  if (const auto* modalities = fields.array("modalities")) {
    for (const auto& item : *modalities) {
      if (!item.is_string() || item.get_string() != "text")
        fields.unsupported("modalities", "only 'text' is");
    }
  }
  fields.refuse("prediction", "guesses of the client's are not used");
  fields.refuse("reasoning_effort", "the model does not tell thinking from answering");
  fields.refuse("verbosity", "the model has no such setting");
  fields.refuse("web_search_options", "this server searches nothing");
  fields.refuse("moderation", "this server moderates nothing");
}

}  // namespace

ApiResult<ChatRequest> parse_chat(std::string_view body, const RequestOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto object, parse_body(body));
  FirstError error;
  FieldReader fields(object, "", error);
  ChatRequest request;
  request.model = read_model(fields);
  request.messages = read_messages(fields, "messages", options);
  read_sampling(fields, options.limits, request.generation);
  read_choices(fields, options.limits, request.generation);
  read_max_tokens(fields, options.limits, request.generation);
  read_logprobs(fields, options.limits, request.generation.sampling);
  request.structure.constraint =
      read_format(fields, "response_format", FormatStyle::kChat, options);
  read_constraint_extensions(fields, options, request.structure.constraint);
  read_tools(fields, options, request.structure);
  refuse_what_only_others_can(fields);
  ignore_account_fields(fields);
  fields.done();
  if (error.failed()) return fail(error.error());
  return request;
}

}  // namespace quire::openai
