// How the server is: health, metrics, and the state of the cache.

#include <boost/json.hpp>
#include <memory>

#include "serve/api/api_context.h"

namespace quire::api {
namespace {

namespace json = boost::json;

/// GET /v1/kv.
std::string kv_json(const Context& context) {
  const ServiceStats stats = context.service->stats();
  const KvStats& kv = stats.kv;
  const json::object out{{"page_size", kv.page_size},
                         {"page_bytes", kv.page_bytes},
                         {"type", kv_type_name(context.engine->options().kv_type)},
                         {"pages",
                          {{"total", kv.pages_total},
                           {"free", kv.pages_free},
                           {"hot", kv.pages_hot},
                           {"sealed", kv.pages_sealed},
                           {"cached", kv.pages_cached},
                           {"available", kv.pages_available},
                           {"pinned", kv.pages_pinned}}},
                         {"prefix_cache",
                          {{"queries", kv.prefix_queries},
                           {"query_tokens", kv.prefix_query_tokens},
                           {"hit_tokens", kv.prefix_hit_tokens},
                           {"blocks", kv.prefix_blocks},
                           {"evicted_blocks", kv.prefix_blocks_evicted}}},
                         {"sequences", {{"running", stats.running}, {"waiting", stats.waiting}}},
                         {"tokens",
                          {{"prompt", stats.prompt_tokens},
                           {"cached", stats.cached_tokens},
                           {"generated", stats.generated_tokens}}},
                         {"preemptions", stats.preemptions}};
  return json::serialize(out);
}

}  // namespace

void add_state_routes(Context& context, Router& router) {
  constexpr RouteOptions kOpen{.needs_key = false, .while_draining = true};
  constexpr RouteOptions kAlways{.while_draining = true};
  router.add(
      "GET", "/health",
      [](HttpRequest, std::shared_ptr<Responder> responder) {
        responder->respond(200, kJson, R"({"status":"ok"})");
      },
      kOpen);
  router.add(
      "GET", "/ready",
      [&context](HttpRequest, std::shared_ptr<Responder> responder) {
        const bool ready = !context.draining;
        responder->respond(ready ? 200 : 503, kJson,
                           ready ? R"({"status":"ready"})" : R"({"status":"draining"})");
      },
      kOpen);
  router.add(
      "GET", "/metrics",
      [&context](HttpRequest, std::shared_ptr<Responder> responder) {
        context.metrics->update(context.service->stats());
        responder->respond(200, Metrics::kContentType, context.metrics->text());
      },
      kAlways);
  router.add(
      "GET", "/v1/kv",
      [&context](HttpRequest, std::shared_ptr<Responder> responder) {
        responder->respond(200, kJson, kv_json(context));
      },
      kAlways);
  // It waits for the step under way.
  router.add("POST", "/v1/kv/flush", [&context](HttpRequest, std::shared_ptr<Responder> responder) {
    run_later(context, 0, responder, [&context, responder] {
      const json::object out{{"pages_freed", context.service->flush_cache()}};
      responder->respond(200, kJson, json::serialize(out));
    });
  });
}

}  // namespace quire::api
