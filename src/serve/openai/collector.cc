#include <utility>

#include "serve/openai/writers.h"

namespace quire::openai {

Collector::Collector(ResponseShape shape, ResponseIdentity identity, const Tokenizer& tokenizer,
                     ResponseOutput output)
    : ResponseWriter(std::move(shape), std::move(identity), tokenizer, std::move(output)),
      choices_(n_choices()) {}

std::string Collector::write_begin(std::size_t choice) {
  choices_[choice].text = echo(choice);
  return {};
}

std::string Collector::write_piece(const Piece& piece) {
  Collected& choice = choices_[piece.choice];
  choice.text += piece.text;
  choice.tokens.insert(choice.tokens.end(), piece.tokens.begin(), piece.tokens.end());
  return {};
}

std::string Collector::write_finish(std::size_t choice, std::string_view reason) {
  choices_[choice].reason = reason;
  return {};
}

std::string Collector::choice_json(std::size_t index) const {
  const Collected& choice = choices_[index];
  const bool chat = shape().endpoint == Endpoint::kChat;
  std::string out =
      fmt::format(R"({{"index":{},{})", index,
                  chat ? R"("message":{"role":"assistant","content":)" : R"("text":)");
  append_json(out, choice.text);
  if (chat) out += R"(,"refusal":null})";
  out += R"(,"logprobs":)";
  if (!shape().logprobs) {
    out += "null";
  } else if (chat) {
    out += fmt::format(R"({{"content":{},"refusal":null}})",
                       token_list_json(choice.tokens, tokenizer()));
  } else {
    out += completion_logprobs_json(choice.tokens, count_chars(echo(index)), shape().n_logprobs > 0,
                                    tokenizer());
  }
  return out + fmt::format(R"(,"finish_reason":"{}"}})", choice.reason);
}

std::string Collector::write_end(const ServiceUsage& usage) {
  const bool chat = shape().endpoint == Endpoint::kChat;
  std::string out =
      response_head(identity(), shape(), chat ? "chat.completion" : "text_completion");
  out += R"("choices":[)";
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (i > 0) out += ',';
    out += choice_json(i);
  }
  return out + fmt::format(R"(],"usage":{}}})", usage_json(usage));
}

// Nothing is sent before the end, so an error always has a response of its own.
std::string Collector::write_error(const ApiError& error) { return to_json(error); }

}  // namespace quire::openai
