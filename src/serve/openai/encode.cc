#include <algorithm>
#include <utility>

#include "engine/prompt.h"
#include "serve/openai/prepare.h"

namespace quire::openai {

ApiResult<void> check_model(const std::string& name, const ServedModel& model) {
  const auto& names = model.names;
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return {};
  return fail(
      ApiError{.http_status = 404,
               .message = fmt::format("The model '{}' does not exist: this server has '{}'.",
                                      shown(name), names.empty() ? "" : names.front()),
               .param = "model",
               .code = "model_not_found"});
}

ApiResult<std::vector<TokenId>> encode_messages(const std::vector<Message>& messages,
                                                bool add_generation_prompt, std::string_view param,
                                                const ServedModel& model) {
  const auto& chat = *model.chat_template;
  if (!chat || !*chat) {
    return fail(
        invalid_field(std::string(param), "unsupported_value",
                      "This model cannot chat: {}. Its text is continued by /v1/completions.",
                      chat ? "its file has no chat template" : chat.error().message));
  }
  std::vector<ChatMessage> plain;
  plain.reserve(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    if (!message.tool_calls.empty() || message.role == "tool")
      return fail(invalid_field(item_path(param, i), "unsupported_value",
                                "The model is not told of tools, nor of what they were asked."));
    plain.push_back({message.role, message.content});
  }
  auto ids = encode_chat(*model.tokenizer, **chat, plain, add_generation_prompt);
  if (ids) return std::move(*ids);
  ApiError error = refusal(ids.error());
  error.param = param;
  return fail(std::move(error));
}

ApiResult<std::vector<TokenId>> encode_input(const PromptInput& input, const std::string& param,
                                             const ServedModel& model) {
  if (const auto* tokens = std::get_if<std::vector<TokenId>>(&input)) {
    const auto vocab_size = static_cast<TokenId>(model.tokenizer->vocab_size());
    const auto bad = std::find_if(tokens->begin(), tokens->end(),
                                  [&](TokenId id) { return id < 0 || id >= vocab_size; });
    if (bad == tokens->end()) return *tokens;
    return fail(invalid_field(param, "invalid_value",
                              "'{}' has token {}, but the vocabulary has tokens 0 to {}.", param,
                              *bad, vocab_size - 1));
  }
  const auto& text = std::get<std::string>(input);
  if (const Status fits = check_text_length(*model.tokenizer, text, model.context); !fits)
    return fail(invalid_field(param, "context_length_exceeded", "'{}' is too long: {}.", param,
                              fits.error().message));
  auto ids = encode_plain(*model.tokenizer, text, ParseSpecial::kNo);
  if (!ids) {
    ApiError error = refusal(ids.error());
    error.param = param;
    return fail(std::move(error));
  }
  if (!ids->empty()) return std::move(*ids);
  return fail(invalid_field(param, "invalid_value",
                            "'{}' is empty, and this model has no token to begin with.", param));
}

}  // namespace quire::openai
