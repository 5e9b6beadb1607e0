#include "serve/http/connection.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

#include "serve/http/api_keys.h"

namespace quire::http {
namespace {

using Clock = std::chrono::steady_clock;

Reply too_many_connections(std::size_t limit) {
  return error_reply(
      503, "too_many_connections",
      fmt::format("All of the {} connections that this server takes are in use.", limit),
      {{"Retry-After", "1"}});
}

Reply too_many_bytes() {
  return error_reply(
      503, "too_many_bodies",
      "The bodies that this server is receiving take all the memory it has for them.",
      {{"Retry-After", "1"}});
}

/// How long a connection beyond the limit may take to say what it wants.
constexpr std::chrono::seconds kRefusalTimeout{1};

Reply about_to_end() {
  return error_reply(503, "shutting_down", "This server is about to end and takes no new requests.",
                     {{"Retry-After", "10"}});
}

Reply wrong_key(bool has_one) {
  return error_reply(401, "invalid_api_key",
                     has_one ? "The API key of this request is not one of this server's."
                             : "This request has no API key: send the header "
                               "\"Authorization: Bearer KEY\".",
                     {{"WWW-Authenticate", "Bearer"}});
}

}  // namespace

Connection::Connection(std::shared_ptr<ServerCore> core, const asio::any_io_executor& strand,
                       std::unique_ptr<Transport> transport, std::string remote)
    : core_(std::move(core)),
      limits_(core_->options.limits),
      strand_(strand),
      transport_(std::move(transport)),
      remote_(std::move(remote)),
      event_(strand),
      guard_(strand) {}

void Connection::start(bool refuse) {
  refuse_ = refuse;
  core_->add(shared_from_this());
  asio::co_spawn(strand_, run(), [self = shared_from_this()](const std::exception_ptr&) {
    // An exception (memory has run out) costs this connection only.
    self->lose_client();
    if (self->exchange_) self->exchange_->detach();
    self->event_.cancel();
    self->guard_.cancel();
    self->core_->remove(self.get());
  });
}

void Connection::stop() {
  asio::post(strand_, [self = shared_from_this()] { self->lose_client(); });
}

asio::awaitable<void> Connection::run() {
  bool more = co_await handshake();
  if (!more) co_return;
  read_more();
  while (more) more = co_await serve_one();
  co_await linger();
}

asio::awaitable<bool> Connection::handshake() {
  arm(limits_.header_timeout);
  const error_code ec = co_await transport_->handshake();
  disarm();
  co_return !ec && !gone_;
}

/// One request; whether another may follow.
asio::awaitable<bool> Connection::serve_one() {
  RequestParser parser(limits_);
  const Route* route = nullptr;
  HttpRequest& request = parser.request();
  std::optional<Reply> reply = co_await read_head(parser);
  if (!reply && parser.state() == RequestParser::State::kHead) co_return false;
  const Clock::time_point begun = Clock::now();

  const std::optional<std::string_view> sent_id = request.header("x-request-id");
  request.id = sent_id && valid_request_id(*sent_id) ? std::string(*sent_id) : new_request_id();
  request.remote = remote_;
  if (!reply && refuse_) reply = too_many_connections(limits_.connections);
  if (!reply) reply = admit(request, route);
  if (!reply && parser.state() == RequestParser::State::kBody) reply = co_await read_body(parser);
  first_ = false;
  if (inbox_.empty()) std::string().swap(inbox_);  // the memory of a large body
  const bool keep = co_await reply_to(parser, std::move(reply), route, begun);
  co_return keep;
}

/// Sends `reply`, or what the handler of `route` makes of the request.
asio::awaitable<bool> Connection::reply_to(RequestParser& parser, std::optional<Reply> reply,
                                           const Route* route, Clock::time_point begun) {
  HttpRequest& request = parser.request();
  // The handler gets the request itself, so what the record needs of it is kept.
  const std::string id = request.id, method = request.method, path = request.path;
  const std::string tenant = request.tenant;
  RequestRecord record{.id = id,
                       .method = method,
                       .path = path,
                       .route = route != nullptr ? std::string_view(route->path) : "",
                       .tenant = tenant,
                       .remote = remote_,
                       .outcome = "disconnected"};
  bool keep = false;
  if (reply || parser.state() == RequestParser::State::kDone) {
    const CountedAnswer counted(*core_);
    exchange_ = std::make_shared<Exchange>(limits_.unsent_bytes, [this] {
      asio::post(strand_, [self = shared_from_this()] { self->on_notify(); });
    });
    if (!reply && core_->draining() && !route->options.while_draining) reply = about_to_end();
    if (reply)
      exchange_->respond(std::move(reply->head), std::move(reply->body));
    else
      dispatch(std::move(request), *route);
    keep = co_await answer(parser, id, record);
    exchange_->disconnect();
    exchange_->detach();
    exchange_.reset();
  }
  record.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  if (core_->options.on_request) core_->options.on_request(record);
  co_return keep && !refuse_ && !overrun_;
}

void Connection::dispatch(HttpRequest request, const Route& route) {
  try {
    route.handler(std::move(request), std::make_shared<Responder>(exchange_));
  } catch (const std::exception&) {
    exchange_->abandon();  // a 500, unless it has answered before it threw
  }
}

/// A reply for what is no request, or nothing: then the parser has a head, or the connection is
/// over (and the parser still in kHead).
asio::awaitable<std::optional<Reply>> Connection::read_head(RequestParser& parser) {
  Clock::time_point deadline =
      Clock::now() +
      (refuse_ ? kRefusalTimeout : (first_ ? limits_.header_timeout : limits_.idle_timeout));
  bool begun = false;
  for (;;) {
    const RequestParser::State state = parser.feed(inbox_);
    if (state == RequestParser::State::kFailed) co_return parser.failure();
    if (state != RequestParser::State::kHead || gone_) co_return std::nullopt;
    if (parser.started() && !begun) {
      begun = true;
      if (!first_) deadline = Clock::now() + limits_.header_timeout;
    }
    if (Clock::now() >= deadline) {
      if (!begun) co_return std::nullopt;
      co_return error_reply(408, "request_timeout",
                            fmt::format("The head of the request was not complete after {} s.",
                                        static_cast<double>(limits_.header_timeout.count()) / 1e3));
    }
    read_more();
    co_await wait_until(deadline);
  }
}

/// What stands in the way of a request whose head is known, or the answer that needs no handler.
std::optional<Reply> Connection::admit(HttpRequest& request, const Route*& route) const {
  const Router::Match match = core_->router.find(request.method, request.path);
  if (request.method == "OPTIONS" && (!match.allow.empty() || request.path == "*")) {
    const std::string allow = match.allow.empty() ? "GET, HEAD, POST, OPTIONS" : match.allow;
    return Reply{.head = {.status = 204, .content_type = {}, .headers = {{"Allow", allow}}},
                 .body = {}};
  }
  if (match.allow.empty())
    return error_reply(404, "unknown_url",
                       fmt::format("There is no {} here.", request.path.substr(0, 200)));
  if (match.route == nullptr)
    return error_reply(405, "method_not_allowed",
                       fmt::format("{} is answered to {}.", request.path, match.allow),
                       {{"Allow", match.allow}});
  route = match.route;
  if (core_->draining() && !route->options.while_draining) return about_to_end();
  if (core_->options.keys && route->options.needs_key) {
    std::optional<std::string> tenant = core_->options.keys->tenant_of(request);
    if (!tenant) return wrong_key(request.header("Authorization").has_value());
    request.tenant = std::move(*tenant);
  }
  return std::nullopt;
}

asio::awaitable<std::optional<Reply>> Connection::read_body(RequestParser& parser) {
  const Clock::time_point deadline = Clock::now() + limits_.body_timeout;
  if (parser.expects_continue() && inbox_.empty()) {
    const bool sent = co_await send("HTTP/1.1 100 Continue\r\n\r\n");
    if (!sent) co_return std::nullopt;
  }
  CountedBody body(*core_);
  for (;;) {
    const RequestParser::State state = parser.feed(inbox_);
    if (state == RequestParser::State::kFailed) co_return parser.failure();
    if (state == RequestParser::State::kDone || gone_) co_return std::nullopt;
    if (!body.grow_to(parser.request().body.size())) {
      std::string().swap(parser.request().body);
      co_return too_many_bytes();
    }
    if (Clock::now() >= deadline)
      co_return error_reply(408, "request_timeout",
                            fmt::format("The body of the request was not complete after {} s.",
                                        static_cast<double>(limits_.body_timeout.count()) / 1e3));
    read_more();
    co_await wait_until(deadline);
  }
}

}  // namespace quire::http
