#pragma once
// One client's connection: reads requests, hands them to handlers, sends the answers. Internal.

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/exchange.h"
#include "serve/http/request_parser.h"
#include "serve/http/router.h"
#include "serve/http/server_core.h"
#include "serve/http/transport.h"

namespace quire::http {

/// A read is pending whatever else goes on, so the end of the client is noticed when it comes: what
/// arrives is kept in `inbox_`, and the coroutine run() takes it from there. Everything runs on one
/// strand, but for stop().
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<ServerCore> core, const asio::any_io_executor& strand,
             std::unique_ptr<Transport> transport, std::string remote);

  /// `refuse`: answers the first request with a 503, since there are too many connections.
  void start(bool refuse = false);
  /// From any thread: cuts the connection.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;

  // connection.cc: the life of a connection and its requests
  asio::awaitable<void> run();
  asio::awaitable<bool> handshake();
  asio::awaitable<bool> serve_one();
  asio::awaitable<bool> reply_to(RequestParser& parser, std::optional<Reply> reply,
                                 const Route* route, Clock::time_point begun);
  asio::awaitable<std::optional<Reply>> read_head(RequestParser& parser);
  asio::awaitable<std::optional<Reply>> read_body(RequestParser& parser);
  std::optional<Reply> admit(HttpRequest& request, const Route*& route) const;
  void dispatch(HttpRequest request, const Route& route);

  // connection_io.cc: bytes and waiting
  asio::awaitable<bool> answer(const RequestParser& parser, std::string_view request_id,
                               RequestRecord& record);
  asio::awaitable<bool> send(std::string_view bytes);
  asio::awaitable<void> linger();
  asio::awaitable<void> wait_until(Clock::time_point deadline);
  void wake();
  void read_more();
  void on_read(error_code ec, std::size_t n_bytes);
  void on_notify();
  void arm(Clock::duration timeout);
  void disarm();
  void lose_client();

  std::shared_ptr<ServerCore> core_;
  const HttpLimits& limits_;
  asio::any_io_executor strand_;
  std::unique_ptr<Transport> transport_;
  std::string remote_;

  asio::steady_timer event_;     // run() waits on it, for wake() or a deadline
  asio::steady_timer guard_;     // cuts the connection when something takes too long
  std::size_t guard_round_ = 0;  // tells an old expiry from that of the wait that is meant
  bool woken_ = false;

  std::vector<char> chunk_;  // where the pending read writes
  std::string inbox_;        // read and not yet parsed
  bool reading_ = false;
  bool discarding_ = false;  // what still comes is not wanted
  bool overrun_ = false;     // requests sent ahead were dropped
  bool gone_ = false;        // nothing comes from the client any more
  bool stalled_ = false;     // cut by guard_
  bool refuse_ = false;
  bool first_ = true;                   // no request was read yet
  std::shared_ptr<Exchange> exchange_;  // the answer under way
};

}  // namespace quire::http
