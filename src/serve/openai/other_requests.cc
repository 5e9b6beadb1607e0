#include <limits>
#include <utility>

#include "serve/openai/json_body.h"
#include "serve/openai/requests.h"

namespace quire::openai {

namespace json = boost::json;

ApiResult<EmbeddingRequest> parse_embedding(std::string_view body, const RequestOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto object, parse_body(body));
  FirstError error;
  FieldReader fields(object, "", error);
  EmbeddingRequest request;
  request.model = read_model(fields);
  request.inputs = read_prompts(fields, "input", options.limits.max_embedding_inputs);
  request.base64 = fields.word("encoding_format", {"float", "base64"}) == "base64";
  if (const auto n = fields.integer("dimensions", 1, std::numeric_limits<std::int32_t>::max()))
    request.dimensions = static_cast<std::size_t>(*n);
  fields.ignore("user", JsonKind::kText);
  fields.done();
  if (error.failed()) return fail(error.error());
  return request;
}

ApiResult<TokenizeRequest> parse_tokenize(std::string_view body, const RequestOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto object, parse_body(body));
  FirstError error;
  FieldReader fields(object, "", error);
  TokenizeRequest request;
  request.model = read_model(fields);
  if (fields.any("messages") != nullptr) {
    fields.refuse("prompt", "'messages' is given already");
    fields.refuse("add_special_tokens", "the model's template decides with 'messages'");
    request.input = read_messages(fields, "messages", options);
    request.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  } else {
    fields.require("prompt");
    request.input = fields.text("prompt").value_or("");
    request.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  }
  request.return_token_strs = fields.boolean("return_token_strs").value_or(false);
  fields.done();
  if (error.failed()) return fail(error.error());
  return request;
}

ApiResult<DetokenizeRequest> parse_detokenize(std::string_view body, const RequestOptions&) {
  QUIRE_ASSIGN_OR_RETURN(const auto object, parse_body(body));
  FirstError error;
  FieldReader fields(object, "", error);
  DetokenizeRequest request;
  request.model = read_model(fields);
  fields.require("tokens");
  if (const json::array* tokens = fields.array("tokens"))
    request.tokens = read_tokens(*tokens, "tokens", error);
  fields.done();
  if (error.failed()) return fail(error.error());
  return request;
}

}  // namespace quire::openai
