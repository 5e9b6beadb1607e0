#include <algorithm>
#include <utility>

#include "serve/openai/writers.h"

namespace quire::openai {
namespace {

constexpr std::string_view kWhere = R"("output_index":0,"content_index":0)";

std::string usage_of_responses(const ServiceUsage& usage) {
  return fmt::format(
      R"({{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{},"cache_write_tokens":0}},)"
      R"("output_tokens":{},"output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":{}}})",
      usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens,
      usage.prompt_tokens + usage.completion_tokens);
}

}  // namespace

ResponsesWriter::ResponsesWriter(ResponseShape shape, ResponseIdentity identity,
                                 const Tokenizer& tokenizer, ResponseOutput output)
    : ResponseWriter(std::move(shape), std::move(identity), tokenizer, std::move(output)) {
  const std::string& id = this->identity().id;
  item_id_ = "msg_" + id.substr(std::min(id.size(), std::string_view("resp_").size()));
}

std::string ResponsesWriter::event(std::string_view type, std::string_view members) {
  if (!shape().stream) return {};
  return fmt::format("event: {}\n", type) +
         sse(fmt::format(R"({{"type":"{}","sequence_number":{},{}}})", type, n_events_++, members));
}

std::string ResponsesWriter::part_json(bool with_text) const {
  std::string out = R"({"type":"output_text","annotations":[],"logprobs":)";
  out += with_text ? token_list_json(tokens_, tokenizer()) : "[]";
  out += R"(,"text":)";
  append_json(out, with_text ? std::string_view(text_) : std::string_view());
  return out + "}";
}

std::string ResponsesWriter::item_json(std::string_view status, bool with_content) const {
  return fmt::format(
      R"({{"id":"{}","type":"message","role":"assistant","status":"{}","content":[{}]}})", item_id_,
      status, with_content ? part_json(true) : std::string());
}

std::string ResponsesWriter::response_json(std::string_view status, const ServiceUsage* usage,
                                           const ApiError* error) const {
  std::string out = R"({"id":)";
  append_json(out, identity().id);
  out += fmt::format(R"(,"object":"response","created_at":{},"status":"{}","model":)",
                     identity().created, status);
  append_json(out, shape().model);
  out += R"(,"error":)";
  if (error != nullptr) {
    out += R"({"code":"server_error","message":)";
    append_json(out, error->message);
    out += '}';
  } else {
    out += "null";
  }
  out += fmt::format(R"(,"incomplete_details":{},"output":[)",
                     status == "incomplete" ? R"({"reason":"max_output_tokens"})" : "null");
  if (usage != nullptr) out += item_json(status, true);
  out += fmt::format(R"(],"usage":{},)",
                     usage != nullptr ? usage_of_responses(*usage) : std::string("null"));
  // The settings are an object of their own: its members go on here.
  return out.append(shape().settings, 1);
}

std::string ResponsesWriter::write_begin(std::size_t) {
  if (!shape().stream) return {};
  const std::string response =
      fmt::format(R"("response":{})", response_json("in_progress", nullptr, nullptr));
  std::string out = event("response.created", response);
  out += event("response.in_progress", response);
  out += event("response.output_item.added",
               fmt::format(R"("output_index":0,"item":{})", item_json("in_progress", false)));
  out += event("response.content_part.added",
               fmt::format(R"("item_id":"{}",{},"part":{})", item_id_, kWhere, part_json(false)));
  return out;
}

std::string ResponsesWriter::write_piece(const Piece& piece) {
  text_ += piece.text;
  tokens_.insert(tokens_.end(), piece.tokens.begin(), piece.tokens.end());
  if (!shape().stream) return {};
  std::string delta;
  append_json(delta, piece.text);
  return event("response.output_text.delta",
               fmt::format(R"("item_id":"{}",{},"delta":{},"logprobs":{})", item_id_, kWhere, delta,
                           token_list_json(piece.tokens, tokenizer())));
}

std::string ResponsesWriter::write_finish(std::size_t, std::string_view reason) {
  reason_ = reason;
  if (!shape().stream) return {};
  std::string text;
  append_json(text, text_);
  const std::string_view status = reason_ == "length" ? "incomplete" : "completed";
  std::string out = event("response.output_text.done",
                          fmt::format(R"("item_id":"{}",{},"text":{},"logprobs":{})", item_id_,
                                      kWhere, text, token_list_json(tokens_, tokenizer())));
  out += event("response.content_part.done",
               fmt::format(R"("item_id":"{}",{},"part":{})", item_id_, kWhere, part_json(true)));
  out += event("response.output_item.done",
               fmt::format(R"("output_index":0,"item":{})", item_json(status, true)));
  return out;
}

std::string ResponsesWriter::write_end(const ServiceUsage& usage) {
  const std::string_view status = reason_ == "length" ? "incomplete" : "completed";
  std::string response = response_json(status, &usage, nullptr);
  if (!shape().stream) return response;
  return event(fmt::format("response.{}", status), fmt::format(R"("response":{})", response));
}

std::string ResponsesWriter::write_error(const ApiError& error) {
  return event("response.failed",
               fmt::format(R"("response":{})", response_json("failed", nullptr, &error)));
}

}  // namespace quire::openai
