#include <type_traits>
#include <utility>

#include "serve/openai/writers.h"

namespace quire::openai {
namespace {

std::string reason_json(std::string_view reason) {
  return reason.empty() ? std::string("null") : fmt::format("\"{}\"", reason);
}

// A chunk's end: usage is there in all chunks or in none.
std::string_view usage_null(const ResponseShape& shape) {
  return shape.include_usage ? R"(,"usage":null})" : "}";
}

std::string stream_end(const std::string& head, const ResponseShape& shape,
                       const ServiceUsage& usage) {
  std::string out;
  if (shape.include_usage)
    out = sse(fmt::format(R"({}"choices":[],"usage":{}}})", head, usage_json(usage)));
  return out.append(kSseDone);
}

}  // namespace

std::string response_head(const ResponseIdentity& identity, const ResponseShape& shape,
                          std::string_view object) {
  std::string out = R"({"id":)";
  append_json(out, identity.id);
  out += fmt::format(R"(,"object":"{}","created":{},"model":)", object, identity.created);
  append_json(out, shape.model);
  out += R"(,"system_fingerprint":)";
  if (shape.fingerprint.empty())
    out += "null";
  else
    append_json(out, shape.fingerprint);
  return out + ",";
}

std::string sse(std::string_view json) { return fmt::format("data: {}\n\n", json); }

std::string sse_error(const ApiError& error) { return sse(to_json(error)).append(kSseDone); }

ChatStream::ChatStream(ResponseShape shape, ResponseIdentity identity, const Tokenizer& tokenizer,
                       ResponseOutput output)
    : ResponseWriter(std::move(shape), std::move(identity), tokenizer, std::move(output)),
      head_(response_head(this->identity(), this->shape(), "chat.completion.chunk")) {}

std::string ChatStream::chunk(std::size_t choice, std::string_view delta, std::string_view logprobs,
                              std::string_view reason) const {
  return sse(
      fmt::format(R"({}"choices":[{{"index":{},"delta":{},"logprobs":{},"finish_reason":{}}}]{})",
                  head_, choice, delta, logprobs, reason_json(reason), usage_null(shape())));
}

std::string ChatStream::write_begin(std::size_t choice) {
  return chunk(choice, R"({"role":"assistant","content":"","refusal":null})", "null", "");
}

std::string ChatStream::write_piece(const Piece& piece) {
  std::string delta = R"({"content":)";
  append_json(delta, piece.text);
  delta += '}';
  std::string logprobs = "null";
  if (shape().logprobs)
    logprobs = fmt::format(R"({{"content":{},"refusal":null}})",
                           token_list_json(piece.tokens, tokenizer()));
  return chunk(piece.choice, delta, logprobs, "");
}

std::string ChatStream::write_finish(std::size_t choice, std::string_view reason) {
  return chunk(choice, "{}", "null", reason);
}

std::string ChatStream::write_end(const ServiceUsage& usage) {
  return stream_end(head_, shape(), usage);
}

std::string ChatStream::write_error(const ApiError& error) { return sse_error(error); }

CompletionStream::CompletionStream(ResponseShape shape, ResponseIdentity identity,
                                   const Tokenizer& tokenizer, ResponseOutput output)
    : ResponseWriter(std::move(shape), std::move(identity), tokenizer, std::move(output)),
      head_(response_head(this->identity(), this->shape(), "text_completion")) {}

std::string CompletionStream::chunk(std::size_t choice, std::string_view text,
                                    std::string_view logprobs, std::string_view reason) const {
  std::string quoted;
  append_json(quoted, text);
  return sse(
      fmt::format(R"({}"choices":[{{"index":{},"text":{},"logprobs":{},"finish_reason":{}}}]{})",
                  head_, choice, quoted, logprobs, reason_json(reason), usage_null(shape())));
}

std::string CompletionStream::write_begin(std::size_t choice) {
  return echo(choice).empty() ? std::string() : chunk(choice, echo(choice), "null", "");
}

std::string CompletionStream::write_piece(const Piece& piece) {
  std::string logprobs = "null";
  if (shape().logprobs) {
    logprobs = completion_logprobs_json(piece.tokens, count_chars(echo(piece.choice)),
                                        shape().n_logprobs > 0, tokenizer());
  }
  return chunk(piece.choice, piece.text, logprobs, "");
}

std::string CompletionStream::write_finish(std::size_t choice, std::string_view reason) {
  return chunk(choice, "", "null", reason);
}

std::string CompletionStream::write_end(const ServiceUsage& usage) {
  return stream_end(head_, shape(), usage);
}

std::string CompletionStream::write_error(const ApiError& error) { return sse_error(error); }

std::shared_ptr<ResponseWriter> make_writer(ResponseShape shape, ResponseIdentity identity,
                                            const Tokenizer& tokenizer, ResponseOutput output) {
  const auto make = [&]<typename Writer>(std::type_identity<Writer>) {
    return std::make_shared<Writer>(std::move(shape), std::move(identity), tokenizer,
                                    std::move(output));
  };
  if (shape.endpoint == Endpoint::kResponses) return make(std::type_identity<ResponsesWriter>());
  if (!shape.stream) return make(std::type_identity<Collector>());
  if (shape.endpoint == Endpoint::kChat) return make(std::type_identity<ChatStream>());
  return make(std::type_identity<CompletionStream>());
}

}  // namespace quire::openai
