#include "serve/api/api_server.h"

#include <fmt/format.h>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <utility>

#include "kernels/kernels.h"
#include "serve/api/api_context.h"
#include "serve/http/http_server.h"

namespace quire {
namespace api {

void respond(Responder& responder, int http_status, std::string body) {
  HttpHeaders headers;
  if (http_status == 429 || http_status == 503) headers.push_back({"Retry-After", "1"});
  responder.respond(http_status, kJson, std::move(body), std::move(headers));
}

void respond(Responder& responder, const openai::ApiError& error) {
  respond(responder, error.http_status, openai::to_json(error));
}

void run_later(Context& context, std::size_t n_bytes, std::shared_ptr<Responder> responder,
               std::function<void()> work) {
  if (!context.later(n_bytes, std::move(work)))
    respond(*responder, openai::refusal({ErrorCode::kBusy, "too many requests are being read"}));
}

}  // namespace api

namespace {

// Rendering templates and compiling grammars, beside the threads that compute.
constexpr std::size_t kPrepareThreads = 2;
constexpr std::size_t kMaxPreparing = 1024;
constexpr std::size_t kMaxPreparingBytes = std::size_t{256} << 20;  // of bodies that wait for them

std::int64_t modified(const std::filesystem::path& file) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(file, error);
  if (error) return 0;
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::file_clock::to_sys(time).time_since_epoch())
      .count();
}

openai::ServedModel served_model(const Engine& engine, const std::vector<std::string>& names) {
  openai::ServedModel model;
  model.names = names;
  if (names.empty()) model.names.push_back(engine.options().model.stem().string());
  model.tokenizer = &engine.tokenizer();
  model.chat_template = &engine.chat_template();
  model.context = engine.options().context;
  model.n_embd = engine.spec().hidden_dim;
  model.has_embeddings = true;
  model.created = modified(engine.options().model);
  // Answers to one seed depend on what the cache keeps, on nothing else here.
  model.fingerprint =
      fmt::format("quire-" QUIRE_VERSION "-{}", kv_type_name(engine.options().kv_type));
  return model;
}

}  // namespace

struct ApiServer::Impl {
  api::Context context;
  Log log;
  std::unique_ptr<Metrics> metrics;
  std::unique_ptr<Service> service;
  std::atomic<std::size_t> n_preparing{0};
  std::atomic<std::size_t> preparing_bytes{0};
  boost::asio::thread_pool preparing{kPrepareThreads};
  std::unique_ptr<HttpServer> http;

  explicit Impl(const LogOptions& options) : log(options) {}

  ~Impl() {
    // First nobody asks any more, then nothing is on its way, then nothing is answered.
    if (http) http->stop();
    preparing.stop();  // what has not begun never will: nobody is left to hear of it
    preparing.join();
    service.reset();
  }

  bool later(std::size_t n_bytes, std::function<void()> work) {
    const auto done = [this, n_bytes] {
      --n_preparing;
      preparing_bytes -= n_bytes;
    };
    // One by itself is always taken.
    const bool too_many = n_preparing.fetch_add(1) >= kMaxPreparing;
    const std::size_t before = preparing_bytes.fetch_add(n_bytes);
    if (too_many || (before > 0 && before + n_bytes > kMaxPreparingBytes)) {
      done();
      return false;
    }
    boost::asio::post(preparing, [work = std::move(work), done] {
      work();
      done();
    });
    return true;
  }
};

ApiServer::ApiServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ApiServer::~ApiServer() = default;

Result<std::unique_ptr<ApiServer>> ApiServer::start(Engine& engine, ServeOptions options) {
  auto impl = std::make_unique<Impl>(options.log);
  api::Context& context = impl->context;
  context.engine = &engine;
  context.model = served_model(engine, options.model_names);
  context.pooling = options.pooling;
  auto grammars = GrammarCompiler::create(engine.tokenizer());
  if (grammars) context.grammars = std::move(*grammars);
  context.request_options = {.limits = options.limits,
                             .supports_constraints = context.grammars.has_value()};
  impl->metrics = std::make_unique<Metrics>(context.model.names.front());
  impl->service = Service::start(engine, options.service);
  context.metrics = impl->metrics.get();
  context.service = impl->service.get();
  context.later = [raw = impl.get()](std::size_t n_bytes, std::function<void()> work) {
    return raw->later(n_bytes, std::move(work));
  };
  options.http.on_request = [raw = impl.get()](const RequestRecord& record) {
    raw->log.request(record);
    raw->metrics->observe_http(record);
  };
  Router router;
  api::add_generation_routes(context, router);
  api::add_embedding_routes(context, router);
  api::add_text_routes(context, router);
  api::add_state_routes(context, router);
  QUIRE_ASSIGN_OR_RETURN(impl->http, HttpServer::start(std::move(options.http), std::move(router)));
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(impl)));
}

std::string ApiServer::url() const { return impl_->http->url(); }
Service& ApiServer::service() { return *impl_->service; }

void ApiServer::drain() {
  impl_->context.draining = true;
  impl_->http->drain();
}

bool ApiServer::wait_drained(std::chrono::steady_clock::time_point deadline) {
  return impl_->http->wait_drained(deadline);
}

}  // namespace quire
