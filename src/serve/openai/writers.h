#pragma once
// The writers that make_writer() chooses from.

#include <string>
#include <string_view>
#include <vector>

#include "serve/openai/response_writer.h"

namespace quire::openai {

/// Chunks of chat completions: a role first, then text, then one reason to finish, for each choice;
/// usage at the end if asked for.
class ChatStream final : public ResponseWriter {
 public:
  ChatStream(ResponseShape shape, ResponseIdentity identity, const Tokenizer& tokenizer,
             ResponseOutput output);

 private:
  std::string write_begin(std::size_t choice) override;
  std::string write_piece(const Piece& piece) override;
  std::string write_finish(std::size_t choice, std::string_view reason) override;
  std::string write_end(const ServiceUsage& usage) override;
  std::string write_error(const ApiError& error) override;
  std::string chunk(std::size_t choice, std::string_view delta, std::string_view logprobs,
                    std::string_view reason) const;

  std::string head_;  // of every chunk, up to its choices
};

/// Chunks of completions. An echoed prompt is the first chunk of each choice.
class CompletionStream final : public ResponseWriter {
 public:
  CompletionStream(ResponseShape shape, ResponseIdentity identity, const Tokenizer& tokenizer,
                   ResponseOutput output);

 private:
  std::string write_begin(std::size_t choice) override;
  std::string write_piece(const Piece& piece) override;
  std::string write_finish(std::size_t choice, std::string_view reason) override;
  std::string write_end(const ServiceUsage& usage) override;
  std::string write_error(const ApiError& error) override;
  std::string chunk(std::size_t choice, std::string_view text, std::string_view logprobs,
                    std::string_view reason) const;

  std::string head_;
};

/// One JSON object of a chat completion or a completion.
class Collector final : public ResponseWriter {
 public:
  Collector(ResponseShape shape, ResponseIdentity identity, const Tokenizer& tokenizer,
            ResponseOutput output);

 private:
  struct Collected {
    std::string text;
    std::vector<ListedToken> tokens;
    std::string reason;
  };
  std::string write_begin(std::size_t choice) override;
  std::string write_piece(const Piece& piece) override;
  std::string write_finish(std::size_t choice, std::string_view reason) override;
  std::string write_end(const ServiceUsage& usage) override;
  std::string write_error(const ApiError& error) override;
  std::string choice_json(std::size_t index) const;

  std::vector<Collected> choices_;
};

/// The responses endpoint, streaming (events named "response....") or not.
class ResponsesWriter final : public ResponseWriter {
 public:
  ResponsesWriter(ResponseShape shape, ResponseIdentity identity, const Tokenizer& tokenizer,
                  ResponseOutput output);

 private:
  std::string write_begin(std::size_t choice) override;
  std::string write_piece(const Piece& piece) override;
  std::string write_finish(std::size_t choice, std::string_view reason) override;
  std::string write_end(const ServiceUsage& usage) override;
  std::string write_error(const ApiError& error) override;

  /// The event, if this is a stream; `members` go behind its type and number.
  std::string event(std::string_view type, std::string_view members);
  std::string response_json(std::string_view status, const ServiceUsage* usage,
                            const ApiError* error) const;
  std::string item_json(std::string_view status, bool with_content) const;
  std::string part_json(bool with_text) const;

  std::string item_id_;
  std::string text_;
  std::vector<ListedToken> tokens_;
  std::string reason_;
  std::size_t n_events_ = 0;
};

/// {"id":…,"object":…,"created":…,"model":…,"system_fingerprint":…, still open.
std::string response_head(const ResponseIdentity& identity, const ResponseShape& shape,
                          std::string_view object);
/// A server-sent event without a name.
std::string sse(std::string_view json);
/// An error in a stream, and the end of the stream.
std::string sse_error(const ApiError& error);
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

}  // namespace quire::openai
