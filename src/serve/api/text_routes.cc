// Routes that only need the tokenizer and the model's name.

#include <memory>
#include <utility>

#include "serve/api/api_context.h"
#include "serve/openai/listings.h"
#include "serve/openai/requests.h"

namespace quire::api {
namespace {

constexpr std::string_view kModels = "/v1/models/";

template <typename Request>
HttpHandler handler(Context& context,
                    openai::ApiResult<Request> (*parse)(std::string_view,
                                                        const openai::RequestOptions&),
                    openai::ApiResult<std::string> (*answer)(const Request&,
                                                             const openai::ServedModel&)) {
  return [&context, parse, answer](HttpRequest http, std::shared_ptr<Responder> responder) {
    auto body = std::make_shared<std::string>(std::move(http.body));
    run_later(context, body->size(), responder, [&context, parse, answer, body, responder] {
      const auto request = parse(*body, context.request_options);
      if (!request) return respond(*responder, request.error());
      auto text = answer(*request, context.model);
      if (!text) return respond(*responder, text.error());
      responder->respond(200, kJson, std::move(*text));
    });
  };
}

}  // namespace

void add_text_routes(Context& context, Router& router) {
  router.add("POST", "/tokenize", handler(context, openai::parse_tokenize, openai::tokenize));
  router.add("POST", "/detokenize", handler(context, openai::parse_detokenize, openai::detokenize));
  router.add("GET", "/v1/models", [&context](HttpRequest, std::shared_ptr<Responder> responder) {
    responder->respond(200, kJson, openai::models_json(context.model));
  });
  router.add("GET", "/v1/models/*",
             [&context](HttpRequest http, std::shared_ptr<Responder> responder) {
               auto text = openai::model_json(http.path.substr(kModels.size()), context.model);
               if (!text) return respond(*responder, text.error());
               responder->respond(200, kJson, std::move(*text));
             });
}

}  // namespace quire::api
