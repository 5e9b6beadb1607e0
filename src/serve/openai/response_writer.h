#pragma once
// From the service's events to the bytes of a response.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/service/service.h"
#include "serve/openai/listed_tokens.h"
#include "serve/openai/prepare.h"

namespace quire::openai {

/// Bytes to be sent as they are. The first part decides status and kind of the response; an error
/// before anything else has a status and a body of its own, in a stream too.
struct ResponsePart {
  int http_status = 200;
  bool event_stream = false;  // Content-Type text/event-stream, not application/json
  std::string bytes;
  bool last = false;  // nothing follows
};
/// Called by whoever brings the event (usually the step thread), one call at a time. It must not
/// wait, nor call the writer.
using ResponseOutput = std::function<void(ResponsePart)>;

/// What is new with every response.
struct ResponseIdentity {
  std::string id;
  std::int64_t created = 0;  // Unix time
};

/// "chatcmpl-", "cmpl-" or "resp_" and 32 hexadecimal digits of what should be random.
std::string make_response_id(Endpoint endpoint, std::uint64_t high, std::uint64_t low);

/// Writes one response, whose choices are counted over its prompts. May be called by several
/// threads. What comes after the last part is ignored.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;
  ResponseWriter(const ResponseWriter&) = delete;
  ResponseWriter& operator=(const ResponseWriter&) = delete;

  void delta(std::size_t prompt, const ChoiceDelta& delta);
  void finish(std::size_t prompt, std::size_t choice, FinishReason reason);
  void done(std::size_t prompt, const ServiceUsage& usage);
  /// The last part is the error.
  void fail(const ApiError& error);

  const ResponseShape& shape() const { return shape_; }

 protected:
  ResponseWriter(ResponseShape shape, ResponseIdentity identity, const Tokenizer& tokenizer,
                 ResponseOutput output);

  struct Piece {
    std::size_t choice = 0;
    std::string_view text;
    std::span<const ListedToken> tokens;  // only if log-probabilities are asked for
  };
  // What is to be sent for each event; may be empty. Every choice begins and finishes once.
  virtual std::string write_begin(std::size_t choice) = 0;
  virtual std::string write_piece(const Piece& piece) = 0;
  virtual std::string write_finish(std::size_t choice, std::string_view reason) = 0;
  virtual std::string write_end(const ServiceUsage& usage) = 0;
  virtual std::string write_error(const ApiError& error) = 0;  // after something was sent

  const ResponseIdentity& identity() const { return identity_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  std::size_t n_choices() const { return choices_.size(); }
  const std::string& echo(std::size_t choice) const { return shape_.echoes[choice / shape_.n]; }

 private:
  struct Choice {
    bool begun = false;
    bool finished = false;
    std::optional<TokenTrail> trail;
  };
  std::size_t choice_index(std::size_t prompt, std::size_t choice) const;
  std::string begin(std::size_t index);
  void send(std::string bytes, bool last);
  void fail_locked(const ApiError& error);

  const ResponseShape shape_;
  const ResponseIdentity identity_;
  const Tokenizer& tokenizer_;
  const ResponseOutput output_;
  std::mutex mutex_;
  std::vector<Choice> choices_;
  std::optional<ApiError> broken_;  // a choice that ended without an answer
  ServiceUsage usage_;              // of the prompts that are done
  std::size_t n_done_ = 0;
  bool started_ = false;  // something was sent
  bool ended_ = false;
};

/// The writer of that shape: a stream of events, or one JSON object. The tokenizer must outlive it.
std::shared_ptr<ResponseWriter> make_writer(ResponseShape shape, ResponseIdentity identity,
                                            const Tokenizer& tokenizer, ResponseOutput output);

/// One sink for each prompt, to be submitted with its request. If a submit() is refused, call
/// writer->fail(refusal(error)) and cancel those before it.
std::vector<std::shared_ptr<ServiceSink>> make_sinks(const std::shared_ptr<ResponseWriter>& writer);

/// The response of a request that generates nothing.
void answer_without_model(ResponseWriter& writer, const PreparedRequest& request);

/// Members of "usage" as chat completions and completions have them, as a JSON object's text.
std::string usage_json(const ServiceUsage& usage);

}  // namespace quire::openai
