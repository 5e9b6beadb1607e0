#pragma once
// Bytes of a connection into one request, within limits. Knows no socket.

#include <cstddef>
#include <memory>
#include <string>

#include "serve/http/http_options.h"
#include "serve/http/http_request.h"
#include "serve/http/response_head.h"

namespace quire::http {

class RequestParser {
 public:
  enum class State { kHead, kBody, kDone, kFailed };

  explicit RequestParser(const HttpLimits& limits);
  ~RequestParser();

  /// Takes from the front of `inbox` what belongs to the request: first up to the end of its head,
  /// from then on its body. What follows is the next request's.
  State feed(std::string& inbox);
  State state() const { return state_; }

  /// Whole in kDone; without its body from the end of the head on.
  HttpRequest& request() { return request_; }
  /// What to answer in kFailed. The connection cannot be used after that.
  const Reply& failure() const { return failure_; }

  bool started() const { return started_; }
  int version() const;  // 10 or 11
  /// Whether the client wants to go on with this connection.
  bool keep_alive() const;
  /// Whether the client waits for a "100 Continue" before it sends the body.
  bool expects_continue() const { return expects_continue_; }

 private:
  class Sink;

  void check_head();
  void fail(int status, std::string_view code, std::string_view message);

  const HttpLimits& limits_;
  HttpRequest request_;
  std::unique_ptr<Sink> sink_;
  State state_ = State::kHead;
  Reply failure_;
  std::size_t head_bytes_ = 0;
  bool started_ = false;
  bool expects_continue_ = false;
};

}  // namespace quire::http
