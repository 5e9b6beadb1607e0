#include <utility>

#include "serve/openai/json_body.h"
#include "serve/openai/requests.h"

namespace quire::openai {
namespace {

namespace json = boost::json;

void read_text_config(FieldReader& fields, const RequestOptions& options, Constraint& constraint) {
  const json::object* text = fields.object("text");
  if (text == nullptr) return;
  FieldReader inner(*text, fields.path("text"), fields.error());
  constraint = read_format(inner, "format", FormatStyle::kResponses, options);
  inner.refuse("verbosity", "the model has no such setting");
  inner.done();
}

// Log-probabilities are asked for by name, and how many with top_logprobs.
void read_included_logprobs(FieldReader& fields, const RequestLimits& limits,
                            SamplerParams& sampling) {
  if (const json::array* include = fields.array("include")) {
    for (std::size_t i = 0; i < include->size(); ++i) {
      const std::string path = item_path(fields.path("include"), i);
      const auto what = to_text((*include)[i], path, fields.error());
      if (what == "message.output_text.logprobs")
        sampling.logprobs = true;
      else if (what)
        fields.error().set(invalid_field(path, "unsupported_value",
                                         "'{}' is not supported: there is no '{}' here.", path,
                                         shown(*what)));
    }
  }
  if (const auto top = fields.integer("top_logprobs", 0, limits.max_top_logprobs)) {
    sampling.n_logprobs = static_cast<std::uint32_t>(*top);
    if (*top > 0) sampling.logprobs = true;
  }
}

void refuse_what_is_not_kept(FieldReader& fields) {
  if (fields.boolean("background").value_or(false))
    fields.unsupported("background", "answers are not kept");
  if (fields.word("truncation", {"auto", "disabled"}) == "auto")
    fields.unsupported("truncation", "an input that is too long is refused, never cut");
  if (const json::array* tools = fields.array("tools"); tools && !tools->empty())
    fields.unsupported("tools", "this endpoint answers with text");
  fields.word("tool_choice", {"auto", "none"});
  fields.ignore("parallel_tool_calls", JsonKind::kBoolean);
  fields.ignore("max_tool_calls", JsonKind::kInteger);
  fields.refuse("previous_response_id", "answers are not kept");
  fields.refuse("conversation", "conversations are not kept");
  fields.refuse("prompt", "there are no stored prompts");
  fields.refuse("reasoning", "the model does not tell thinking from answering");
  fields.refuse("context_management", "an input is never changed");
  fields.refuse("background_options", "answers are not kept");
  fields.refuse("image", "only text is");
  fields.refuse("moderation", "this server moderates nothing");
}

}  // namespace

ApiResult<ResponsesRequest> parse_responses(std::string_view body, const RequestOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto object, parse_body(body));
  FirstError error;
  FieldReader fields(object, "", error);
  ResponsesRequest request;
  GenerationFields& generation = request.generation;
  request.model = read_model(fields);
  request.messages = read_response_input(fields, "input");
  request.instructions = fields.text("instructions");
  if (request.instructions)
    request.messages.insert(request.messages.begin(), Message{.role = "system",
                                                              .content = *request.instructions,
                                                              .tool_calls = {},
                                                              .tool_call_id = {}});
  read_sampling(fields, options.limits, generation);
  if (const auto most = fields.integer("max_output_tokens", 1, options.limits.max_tokens))
    generation.max_tokens = static_cast<std::size_t>(*most);
  generation.stream = fields.boolean("stream").value_or(false);
  if (const json::object* stream_options = fields.object("stream_options")) {
    FieldReader inner(*stream_options, "stream_options", error);
    inner.ignore("include_obfuscation", JsonKind::kBoolean);
    inner.done();
  }
  read_included_logprobs(fields, options.limits, generation.sampling);
  read_text_config(fields, options, request.constraint);
  read_constraint_extensions(fields, options, request.constraint);
  refuse_what_is_not_kept(fields);
  ignore_account_fields(fields);
  fields.done();
  if (error.failed()) return fail(error.error());
  return request;
}

}  // namespace quire::openai
