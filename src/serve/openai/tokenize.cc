#include <boost/json.hpp>
#include <utility>

#include "engine/prompt.h"
#include "serve/openai/prepare.h"
#include "text/utf8.h"

namespace quire::openai {
namespace {

namespace json = boost::json;

ApiResult<std::vector<TokenId>> encode(const TokenizeRequest& request, const ServedModel& model) {
  if (const auto* messages = std::get_if<std::vector<Message>>(&request.input))
    return encode_messages(*messages, request.add_generation_prompt, "messages", model);
  const Tokenizer& tokenizer = *model.tokenizer;
  auto ids = tokenizer.encode(std::get<std::string>(request.input), ParseSpecial::kNo);
  if (!ids) {
    ApiError error = refusal(ids.error());
    error.param = "prompt";
    return fail(std::move(error));
  }
  return request.add_special_tokens ? tokenizer.with_bos(std::move(*ids)) : std::move(*ids);
}

}  // namespace

ApiResult<std::string> tokenize(const TokenizeRequest& request, const ServedModel& model) {
  QUIRE_RETURN_IF_ERROR(check_model(request.model, model));
  QUIRE_ASSIGN_OR_RETURN(const auto ids, encode(request, model));
  json::value texts = nullptr;
  if (request.return_token_strs) {
    json::array& list = texts.emplace_array();
    for (const TokenId id : ids)
      list.push_back(json::value(
          replace_invalid_utf8(model.tokenizer->token_bytes(id, /*show_special=*/true))));
  }
  return json::serialize(json::object{{"count", ids.size()},
                                      {"max_model_len", model.context},
                                      {"tokens", json::array(ids.begin(), ids.end())},
                                      {"token_strs", std::move(texts)}});
}

ApiResult<std::string> detokenize(const DetokenizeRequest& request, const ServedModel& model) {
  QUIRE_RETURN_IF_ERROR(check_model(request.model, model));
  QUIRE_ASSIGN_OR_RETURN(const auto ids, encode_input(request.tokens, "tokens", model));
  StreamDecoder decoder(*model.tokenizer, /*show_special=*/true);
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  text += decoder.finish();
  return json::serialize(json::object{{"prompt", text}});
}

}  // namespace quire::openai
