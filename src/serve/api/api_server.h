#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/service/service.h"
#include "serve/http/http_options.h"
#include "serve/http/log.h"
#include "serve/openai/limits.h"

namespace quire {

struct ServeOptions {
  HttpServerOptions http;
  ServiceOptions service;
  LogOptions log;
  openai::RequestLimits limits;
  Pooling pooling = Pooling::kMean;      // of embeddings
  std::vector<std::string> model_names;  // what "model" may say; the first is what answers say
};

/// The server: OpenAI's protocol in front of one engine. docs/serving.md has the routes.
class ApiServer {
 public:
  /// Serves on threads of its own when it returns. `engine` must outlive it, and nobody else may
  /// use it meanwhile.
  static Result<std::unique_ptr<ApiServer>> start(Engine& engine, ServeOptions options);
  /// Cuts what is under way.
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  std::string url() const;
  Service& service();

  /// Takes nothing new, and lets what is under way finish.
  void drain();
  bool wait_drained(std::chrono::steady_clock::time_point deadline);

 private:
  struct Impl;
  explicit ApiServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
