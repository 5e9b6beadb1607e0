// Embeddings: every input is a text of its own to the service; the last one to be done answers.

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "serve/api/api_context.h"
#include "serve/openai/listings.h"
#include "serve/openai/requests.h"

namespace quire::api {
namespace {

/// What is there of one request's vectors. Those of the step thread come one by one; the one that
/// submits may fail meanwhile.
struct Embedding {
  std::shared_ptr<Responder> responder;
  bool base64 = false;
  std::size_t n_tokens = 0;
  std::vector<std::vector<float>> vectors;
  std::atomic<std::size_t> n_missing{0};
  std::atomic<bool> failed{false};

  void fail(const openai::ApiError& error) {
    if (!failed.exchange(true)) respond(*responder, error);
  }
};

void answer(Context& context, const std::string& body, std::shared_ptr<Responder> responder) {
  const auto request = openai::parse_embedding(body, context.request_options);
  if (!request) return respond(*responder, request.error());
  auto inputs = openai::prepare(*request, context.model);
  if (!inputs) return respond(*responder, inputs.error());

  const auto embedding = std::make_shared<Embedding>();
  embedding->responder = std::move(responder);
  embedding->base64 = request->base64;
  embedding->vectors.resize(inputs->size());
  embedding->n_missing = inputs->size();
  for (const auto& input : *inputs) embedding->n_tokens += input.size();
  for (std::size_t i = 0; i < inputs->size(); ++i) {
    auto done = [&context, embedding, i](Result<std::vector<float>> vector) {
      if (!vector) return embedding->fail(openai::failure(vector.error()));
      embedding->vectors[i] = std::move(*vector);
      if (--embedding->n_missing > 0 || embedding->failed) return;
      embedding->responder->respond(200, kJson,
                                    openai::embeddings_json(embedding->vectors, embedding->base64,
                                                            embedding->n_tokens, context.model));
    };
    const auto taken = context.service->embed(
        {.tokens = std::move((*inputs)[i]),
         .pooling = context.pooling,
         .cancelled = std::shared_ptr<const std::atomic<bool>>(embedding, &embedding->failed),
         .done = std::move(done)});
    if (!taken) return embedding->fail(openai::refusal(taken.error()));
  }
  embedding->responder->on_disconnect([weak = std::weak_ptr<Embedding>(embedding)] {
    if (const auto left = weak.lock()) left->failed = true;
  });
}

}  // namespace

void add_embedding_routes(Context& context, Router& router) {
  router.add("POST", "/v1/embeddings",
             [&context](HttpRequest http, std::shared_ptr<Responder> responder) {
               auto body = std::make_shared<std::string>(std::move(http.body));
               run_later(context, body->size(), responder,
                         [&context, body, responder] { answer(context, *body, responder); });
             });
}

}  // namespace quire::api
