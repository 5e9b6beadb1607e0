// Chat completions, completions and responses: from the body of a request to the service, and back.

#include <fmt/format.h>

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "serve/api/api_context.h"
#include "serve/api/observed_sink.h"
#include "serve/openai/requests.h"
#include "serve/openai/response_writer.h"

namespace quire::api {
namespace {

using openai::ApiError;
using openai::ApiResult;

std::uint64_t random_number() {
  thread_local std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

/// The compiler's words quote the grammar, which can be long; what is wrong stands before or after.
std::string abridged(std::string_view message) {
  constexpr std::size_t kKept = 200;  // bytes of each end; cut characters become U+FFFD
  if (message.size() <= 2 * kKept) return std::string(message);
  return fmt::format("{} … {}", message.substr(0, kKept), message.substr(message.size() - kKept));
}

ApiResult<std::shared_ptr<const Grammar>> compile(const Context& context,
                                                  const openai::Constraint& constraint) {
  using Kind = openai::Constraint::Kind;
  if (constraint.kind == Kind::kNone) return std::shared_ptr<const Grammar>();
  // Requests are refused while they are read if there is none.
  QUIRE_CHECK(context.grammars.has_value());
  const bool is_regex = constraint.kind == Kind::kRegex;
  const bool is_lark = constraint.kind == Kind::kLark;
  const std::string_view source = constraint.kind == Kind::kJsonObject
                                      ? std::string_view(R"({"type":"object"})")
                                      : std::string_view(constraint.source);
  auto grammar = context.grammars->compile(is_regex  ? GrammarKind::kRegex
                                           : is_lark ? GrammarKind::kLark
                                                     : GrammarKind::kJsonSchema,
                                           source);
  if (!grammar)
    return fail(openai::invalid_field(is_regex  ? "regex"
                                      : is_lark ? "grammar"
                                                : "response_format",
                                      "invalid_value", "answers cannot follow it: {}",
                                      abridged(grammar.error().message)));
  return std::make_shared<const Grammar>(std::move(*grammar));
}

/// Sends the parts of a response as they come.
openai::ResponseOutput send_to(std::shared_ptr<Responder> responder) {
  return [responder = std::move(responder), streaming = false](openai::ResponsePart part) mutable {
    if (!part.event_stream) {
      respond(*responder, part.http_status, std::move(part.bytes));
      return;
    }
    if (!streaming) {
      responder->start_stream(part.http_status, "text/event-stream",
                              {{"Cache-Control", "no-cache"}});
      streaming = true;
    }
    // Who went away is noticed where that ends the request.
    responder->write(part.bytes);
    if (part.last) responder->finish();
  };
}

void submit(Context& context, openai::PreparedRequest prepared,
            std::shared_ptr<const Grammar> grammar, std::shared_ptr<Responder> responder) {
  const openai::ResponseIdentity identity{
      .id = openai::make_response_id(prepared.shape.endpoint, random_number(), random_number()),
      .created = std::chrono::duration_cast<std::chrono::seconds>(
                     std::chrono::system_clock::now().time_since_epoch())
                     .count()};
  const auto writer =
      openai::make_writer(prepared.shape, identity, *context.model.tokenizer, send_to(responder));
  if (!prepared.generates) return openai::answer_without_model(*writer, prepared);

  const auto sinks = openai::make_sinks(writer);
  std::vector<RequestId> ids;
  for (std::size_t i = 0; i < prepared.requests.size(); ++i) {
    prepared.requests[i].grammar = grammar;
    const auto id =
        context.service->submit(std::move(prepared.requests[i]),
                                std::make_shared<ObservedSink>(sinks[i], *context.metrics));
    if (!id) {
      writer->fail(openai::refusal(id.error()));
      for (const RequestId earlier : ids) context.service->cancel(earlier);
      return;
    }
    ids.push_back(*id);
  }
  responder->on_disconnect([service = context.service, ids] {
    for (const RequestId id : ids) service->cancel(id);
  });
}

template <typename Request>
void answer(Context& context,
            ApiResult<Request> (*parse)(std::string_view, const openai::RequestOptions&),
            const HttpRequest& http, std::shared_ptr<Responder> responder) {
  const auto request = parse(http.body, context.request_options);
  if (!request) return respond(*responder, request.error());
  auto prepared = openai::prepare(*request, context.model,
                                  {.tenant = http.tenant, .random_seed = random_number()});
  if (!prepared) return respond(*responder, prepared.error());
  auto grammar = compile(context, prepared->constraint);
  if (!grammar) return respond(*responder, grammar.error());
  submit(context, std::move(*prepared), std::move(*grammar), std::move(responder));
}

template <typename Request>
HttpHandler handler(Context& context,
                    ApiResult<Request> (*parse)(std::string_view, const openai::RequestOptions&)) {
  return [&context, parse](HttpRequest http, std::shared_ptr<Responder> responder) {
    auto shared = std::make_shared<HttpRequest>(std::move(http));
    run_later(context, shared->body.size(), responder,
              [&context, parse, shared, responder] { answer(context, parse, *shared, responder); });
  };
}

}  // namespace

void add_generation_routes(Context& context, Router& router) {
  router.add("POST", "/v1/chat/completions", handler(context, openai::parse_chat));
  router.add("POST", "/v1/completions", handler(context, openai::parse_completion));
  router.add("POST", "/v1/responses", handler(context, openai::parse_responses));
}

}  // namespace quire::api
