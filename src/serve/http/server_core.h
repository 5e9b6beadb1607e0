#pragma once
// What all connections of a server share. Internal.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "serve/http/http_options.h"
#include "serve/http/router.h"

namespace quire::http {

class Connection;

class ServerCore {
 public:
  ServerCore(HttpServerOptions server_options, Router server_router)
      : options(std::move(server_options)), router(std::move(server_router)) {}

  const HttpServerOptions options;
  const Router router;

  bool draining() const { return draining_.load(); }
  void drain() { draining_.store(true); }

  /// A request is counted from before draining() is asked for it until its answer is sent, so that
  /// none can slip between.
  void begin_answer();
  void end_answer();
  bool wait_for_answers(std::chrono::steady_clock::time_point deadline);
  std::size_t answers() const;

  /// A body that is on its way has grown. False if there is no room for that among all bodies: then
  /// none of it counts any longer, so that the next to grow does not fail too.
  bool grow_body(std::size_t before, std::size_t after);
  void end_body(std::size_t n_bytes);

  void add(const std::shared_ptr<Connection>& connection);
  void remove(const Connection* connection);
  std::size_t connections() const;
  void stop_connections();
  void wait_for_connections();

 private:
  std::atomic<bool> draining_{false};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t answers_ = 0;
  std::size_t receiving_ = 0;  // bytes of bodies that are on their way
  std::unordered_map<const Connection*, std::weak_ptr<Connection>> connections_;
};

/// One answer that a drain waits for.
class CountedAnswer {
 public:
  explicit CountedAnswer(ServerCore& core) : core_(core) { core_.begin_answer(); }
  ~CountedAnswer() { core_.end_answer(); }
  CountedAnswer(const CountedAnswer&) = delete;
  CountedAnswer& operator=(const CountedAnswer&) = delete;

 private:
  ServerCore& core_;
};

/// A body that grows until its request is complete.
class CountedBody {
 public:
  explicit CountedBody(ServerCore& core) : core_(core) {}
  ~CountedBody() { core_.end_body(n_bytes_); }
  CountedBody(const CountedBody&) = delete;
  CountedBody& operator=(const CountedBody&) = delete;

  bool grow_to(std::size_t n_bytes) {
    const bool fits = core_.grow_body(n_bytes_, n_bytes);
    n_bytes_ = fits ? n_bytes : 0;
    return fits;
  }

 private:
  ServerCore& core_;
  std::size_t n_bytes_ = 0;
};

}  // namespace quire::http
