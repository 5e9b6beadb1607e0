#pragma once
// An HTTP/1.1 server for few, long answers: streams of tokens. docs/http.md describes what clients
// see.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "serve/http/http_options.h"
#include "serve/http/router.h"

namespace quire {

class HttpServer {
 public:
  /// Listens and serves on threads of its own when it returns. Raises the process's soft limit of
  /// open files to what options.limits.connections needs, as far as the hard one allows.
  static Result<std::unique_ptr<HttpServer>> start(HttpServerOptions options, Router router);
  /// As stop().
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;
  /// "http://127.0.0.1:8080"
  std::string url() const;

  /// Takes no new connections, answers new requests of open ones with 503, and lets the answers
  /// under way finish.
  void drain();
  /// Whether all answers were sent before `deadline`. Never from a handler.
  bool wait_drained(std::chrono::steady_clock::time_point deadline);
  /// Cuts every connection, tells the makers of unfinished answers, and waits for the threads.
  /// Never from a handler.
  void stop();

  std::size_t connections() const;
  std::size_t answers_under_way() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
