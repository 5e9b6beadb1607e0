#pragma once
// What the routes work with. Everything in it may be used from any thread.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "engine/service/service.h"
#include "serve/http/http_request.h"
#include "serve/http/metrics.h"
#include "serve/http/responder.h"
#include "serve/http/router.h"
#include "serve/openai/api_error.h"
#include "serve/openai/prepare.h"
#include "text/grammar.h"

namespace quire::api {

struct Context {
  const Engine* engine = nullptr;  // what does not change: specification, options, tokenizer
  Service* service = nullptr;
  Metrics* metrics = nullptr;
  openai::ServedModel model;
  Pooling pooling = Pooling::kMean;  // of embeddings
  openai::RequestOptions request_options;
  /// None if no token of the vocabulary ends an answer.
  std::optional<GrammarCompiler> grammars;
  std::atomic<bool> draining{false};
  /// Runs work that takes its time (templates, tokenizing, grammars) on another thread. False if
  /// too much waits there already.
  std::function<bool(std::size_t n_bytes, std::function<void()>)> later;
};

inline constexpr std::string_view kJson = "application/json";

/// Says when to come again to whom there is no room for.
void respond(Responder& responder, int http_status, std::string body);
void respond(Responder& responder, const openai::ApiError& error);
/// Runs `work` on a body of so many bytes later, or answers that too much is going on.
void run_later(Context& context, std::size_t n_bytes, std::shared_ptr<Responder> responder,
               std::function<void()> work);

// Each adds some routes.
void add_generation_routes(Context& context, Router& router);
void add_embedding_routes(Context& context, Router& router);
void add_text_routes(Context& context, Router& router);
void add_state_routes(Context& context, Router& router);

}  // namespace quire::api
