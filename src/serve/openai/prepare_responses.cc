#include <boost/json.hpp>
#include <utility>

#include "serve/openai/json_body.h"
#include "serve/openai/prepare.h"

namespace quire::openai {
namespace {

namespace json = boost::json;

// The text is our own serialisation of what was parsed with this depth.
json::value parse_schema(const std::string& text) {
  json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  boost::json::error_code ec;
  return json::parse(text, ec, {}, options);
}

json::value format_json(const Constraint& constraint) {
  if (constraint.kind == Constraint::Kind::kJsonObject)
    return json::object{{"type", "json_object"}};
  if (constraint.kind == Constraint::Kind::kJsonSchema)
    return json::object{{"type", "json_schema"},
                        {"name", constraint.name},
                        {"schema", parse_schema(constraint.source)},
                        {"strict", constraint.strict}};
  return json::object{{"type", "text"}};
}

// A response says what it was made with.
std::string settings(const ResponsesRequest& request, const ServiceRequest& service) {
  json::value instructions = nullptr;
  if (request.instructions) instructions = json::value(*request.instructions);
  json::value max_output_tokens = nullptr;
  if (request.generation.max_tokens) max_output_tokens = *request.generation.max_tokens;
  return json::serialize(
      json::object{{"background", false},
                   {"instructions", std::move(instructions)},
                   {"max_output_tokens", std::move(max_output_tokens)},
                   {"metadata", json::object{}},
                   {"parallel_tool_calls", true},
                   {"previous_response_id", nullptr},
                   {"reasoning", json::object{{"effort", nullptr}, {"summary", nullptr}}},
                   {"store", false},
                   {"temperature", service.sampling.temperature},
                   {"text", json::object{{"format", format_json(request.constraint)}}},
                   {"tool_choice", "auto"},
                   {"tools", json::array{}},
                   {"top_logprobs", service.sampling.n_logprobs},
                   {"top_p", service.sampling.top_p},
                   {"truncation", "disabled"}});
}

}  // namespace

ApiResult<PreparedRequest> prepare(const ResponsesRequest& request, const ServedModel& model,
                                   const Caller& caller) {
  QUIRE_ASSIGN_OR_RETURN(auto out,
                         prepare_chat(Endpoint::kResponses, request.model, request.messages,
                                      request.generation, model, caller));
  out.constraint = request.constraint;
  out.shape.settings = settings(request, out.requests.front());
  return out;
}

}  // namespace quire::openai
