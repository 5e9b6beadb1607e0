#include "serve/openai/response_writer.h"

#include <utility>

#include "base/check.h"

namespace quire::openai {
namespace {

class WriterSink final : public ServiceSink {
 public:
  WriterSink(std::shared_ptr<ResponseWriter> writer, std::size_t prompt)
      : writer_(std::move(writer)), prompt_(prompt) {}

  void on_delta(const ChoiceDelta& delta) override { writer_->delta(prompt_, delta); }
  void on_finish(std::size_t choice, FinishReason reason) override {
    writer_->finish(prompt_, choice, reason);
  }
  void on_done(const ServiceUsage& usage) override { writer_->done(prompt_, usage); }
  void on_error(const Error& error) override { writer_->fail(failure(error)); }

 private:
  std::shared_ptr<ResponseWriter> writer_;
  std::size_t prompt_;
};

ApiError broken_off(FinishReason reason) {
  const bool cancelled = reason == FinishReason::kCancelled;
  return ApiError{.http_status = cancelled ? 503 : 500,
                  .message = cancelled ? "The request was cancelled before its answer was complete."
                                       : "The answer broke off.",
                  .type = "server_error",
                  .param = {},
                  .code = cancelled ? "request_cancelled" : "internal_error"};
}

}  // namespace

std::string make_response_id(Endpoint endpoint, std::uint64_t high, std::uint64_t low) {
  constexpr std::string_view kPrefixes[] = {"chatcmpl-", "cmpl-", "resp_"};
  return fmt::format("{}{:016x}{:016x}", kPrefixes[static_cast<std::size_t>(endpoint)], high, low);
}

std::string usage_json(const ServiceUsage& usage) {
  return fmt::format(R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
                     R"("prompt_tokens_details":{{"cached_tokens":{}}}}})",
                     usage.prompt_tokens, usage.completion_tokens,
                     usage.prompt_tokens + usage.completion_tokens, usage.cached_tokens);
}

ResponseWriter::ResponseWriter(ResponseShape shape, ResponseIdentity identity,
                               const Tokenizer& tokenizer, ResponseOutput output)
    : shape_(std::move(shape)),
      identity_(std::move(identity)),
      tokenizer_(tokenizer),
      output_(std::move(output)),
      choices_(shape_.n * shape_.echoes.size()) {
  if (!shape_.logprobs) return;
  for (Choice& choice : choices_) choice.trail.emplace(tokenizer_, shape_.ignore_eos);
}

std::size_t ResponseWriter::choice_index(std::size_t prompt, std::size_t choice) const {
  QUIRE_CHECK(prompt < shape_.echoes.size() && choice < shape_.n);
  return prompt * shape_.n + choice;
}

std::string ResponseWriter::begin(std::size_t index) {
  return std::exchange(choices_[index].begun, true) ? std::string() : write_begin(index);
}

void ResponseWriter::delta(std::size_t prompt, const ChoiceDelta& delta) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  const std::size_t index = choice_index(prompt, delta.choice);
  Choice& choice = choices_[index];
  QUIRE_CHECK(!choice.finished);
  std::vector<ListedToken> listed;
  if (choice.trail) listed = choice.trail->push(delta.tokens, delta.text);
  std::string bytes = begin(index);
  if (!delta.text.empty() || !listed.empty()) bytes += write_piece({index, delta.text, listed});
  send(std::move(bytes), false);
}

void ResponseWriter::finish(std::size_t prompt, std::size_t choice_number, FinishReason reason) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  const std::size_t index = choice_index(prompt, choice_number);
  Choice& choice = choices_[index];
  QUIRE_CHECK(!choice.finished);
  choice.finished = true;
  if (reason == FinishReason::kCancelled || reason == FinishReason::kError) {
    // The rest of the events says why, or done() says what is known here.
    if (!broken_) broken_ = broken_off(reason);
    return;
  }
  std::string bytes = begin(index);
  if (choice.trail && reason == FinishReason::kLength) {
    const auto rest = choice.trail->finish();
    if (!rest.empty()) bytes += write_piece({index, "", rest});
  }
  bytes += write_finish(index, finish_reason_name(reason));
  send(std::move(bytes), false);
}

void ResponseWriter::done(std::size_t prompt, const ServiceUsage& usage) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  for (std::size_t i = 0; i < shape_.n && !broken_; ++i) {
    if (!choices_[choice_index(prompt, i)].finished) broken_ = broken_off(FinishReason::kError);
  }
  if (broken_) return fail_locked(*broken_);
  usage_.prompt_tokens += usage.prompt_tokens;
  usage_.cached_tokens += usage.cached_tokens;
  usage_.completion_tokens += usage.completion_tokens;
  if (++n_done_ == shape_.echoes.size()) send(write_end(usage_), true);
}

void ResponseWriter::fail(const ApiError& error) {
  const std::lock_guard lock(mutex_);
  if (!ended_) fail_locked(error);
}

void ResponseWriter::fail_locked(const ApiError& error) {
  if (started_) return send(write_error(error), true);
  ended_ = true;
  output_({.http_status = error.http_status,
           .event_stream = false,
           .bytes = to_json(error),
           .last = true});
}

void ResponseWriter::send(std::string bytes, bool last) {
  if (bytes.empty() && !last) return;
  started_ = true;
  ended_ = last;
  output_(
      {.http_status = 200, .event_stream = shape_.stream, .bytes = std::move(bytes), .last = last});
}

std::vector<std::shared_ptr<ServiceSink>> make_sinks(
    const std::shared_ptr<ResponseWriter>& writer) {
  std::vector<std::shared_ptr<ServiceSink>> out;
  for (std::size_t i = 0; i < writer->shape().echoes.size(); ++i)
    out.push_back(std::make_shared<WriterSink>(writer, i));
  return out;
}

void answer_without_model(ResponseWriter& writer, const PreparedRequest& request) {
  for (std::size_t i = 0; i < request.requests.size(); ++i) {
    for (std::size_t k = 0; k < request.shape.n; ++k) writer.finish(i, k, FinishReason::kLength);
    ServiceUsage usage;
    usage.prompt_tokens = request.requests[i].prompt.size();
    writer.done(i, usage);
  }
}

}  // namespace quire::openai
