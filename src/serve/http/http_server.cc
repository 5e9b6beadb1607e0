#include "serve/http/http_server.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <exception>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "serve/http/connection.h"
#include "serve/http/server_core.h"
#include "serve/http/transport.h"

namespace quire {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using http::kNoThrow;

/// Connections beyond the limit that are told so; more are closed without a word.
constexpr std::size_t kRefusals = 64;
/// What the system keeps for a client that does not read, on top of HttpLimits::unsent_bytes. Left
/// to itself it grows to megabytes, and a client that reads nothing would be noticed late.
constexpr int kSendBuffer = 256 << 10;

std::string address_text(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                    : fmt::format("{}:{}", address, endpoint.port());
}

/// A client whose machine is gone without a word is noticed after two minutes.
void configure(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  socket.set_option(asio::socket_base::send_buffer_size(kSendBuffer), ignored);
  for (const auto& [name, value] :
       {std::pair{TCP_KEEPIDLE, 60}, {TCP_KEEPINTVL, 15}, {TCP_KEEPCNT, 4}})
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, name, &value, sizeof(value));
}

void raise_open_files(std::size_t connections) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, connections + kRefusals + 256);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

struct HttpServer::Impl {
  explicit Impl(std::shared_ptr<http::ServerCore> server_core)
      : core(std::move(server_core)),
        io(static_cast<int>(std::max(1u, core->options.io_threads))),
        work(asio::make_work_guard(io)),
        acceptor_strand(asio::make_strand(io)),
        acceptor(acceptor_strand) {}

  Status listen();
  void run_threads();
  asio::awaitable<void> accept_all();
  void serve(tcp::socket socket, const asio::any_io_executor& strand);
  void drain();
  void stop();

  std::shared_ptr<http::ServerCore> core;
  std::shared_ptr<http::TlsContext> tls;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  asio::any_io_executor acceptor_strand;
  tcp::acceptor acceptor;
  tcp::endpoint endpoint;
  std::vector<std::thread> threads;
  std::promise<void> accepting_ended;
  std::once_flag stopped;
};

Status HttpServer::Impl::listen() {
  const HttpServerOptions& options = core->options;
  std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  error_code ec;
  const asio::ip::address address = asio::ip::make_address(host, ec);
  if (ec)
    return fail(ErrorCode::kInvalidArgument,
                "cannot listen on {:?}: give an IPv4 or IPv6 address, or localhost", options.host);
  const tcp::endpoint wanted(address, options.port);
  acceptor.open(wanted.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(wanted, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (!ec) endpoint = acceptor.local_endpoint(ec);
  if (ec)
    return fail(ErrorCode::kIo, "cannot listen on {}: {}", address_text(wanted), ec.message());
  return {};
}

void HttpServer::Impl::run_threads() {
  asio::co_spawn(acceptor_strand, accept_all(),
                 [this](const std::exception_ptr&) { accepting_ended.set_value(); });
  // Signals go to the threads of the program that knows what to do with them.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  for (unsigned i = 0; i < std::max(1u, core->options.io_threads); ++i)
    threads.emplace_back([this] { io.run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

asio::awaitable<void> HttpServer::Impl::accept_all() {
  asio::steady_timer pause(acceptor_strand);
  while (acceptor.is_open()) {
    const asio::any_io_executor strand = asio::make_strand(io);
    auto [ec, socket] = co_await acceptor.async_accept(strand, kNoThrow);
    if (!acceptor.is_open()) break;
    if (!ec) {
      serve(std::move(socket), strand);
      continue;
    }
    // Out of open files or memory: that passes when connections end.
    pause.expires_after(std::chrono::milliseconds(50));
    co_await pause.async_wait(kNoThrow);
  }
}

void HttpServer::Impl::serve(tcp::socket socket, const asio::any_io_executor& strand) {
  const std::size_t open = core->connections();
  const std::size_t limit = core->options.limits.connections;
  if (open >= limit + kRefusals) return;
  try {
    error_code ec;
    const tcp::endpoint remote = socket.remote_endpoint(ec);
    if (ec) return;
    configure(socket);
    auto transport =
        tls ? tls->transport(std::move(socket)) : http::plain_transport(std::move(socket));
    std::make_shared<http::Connection>(core, strand, std::move(transport), address_text(remote))
        ->start(open >= limit);
  } catch (const std::exception&) {
    return;  // no memory for this one
  }
}

void HttpServer::Impl::drain() {
  core->drain();
  asio::post(acceptor_strand, [this] {
    error_code ignored;
    acceptor.close(ignored);
  });
}

void HttpServer::Impl::stop() {
  std::call_once(stopped, [this] {
    drain();
    accepting_ended.get_future().wait();
    core->stop_connections();
    core->wait_for_connections();
    work.reset();
    for (std::thread& thread : threads) thread.join();
  });
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() { impl_->stop(); }

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpServerOptions options, Router router) {
  if (options.tls_certificate.empty() != options.tls_key.empty())
    return fail(ErrorCode::kInvalidArgument, "TLS needs both a certificate file and a key file");
  auto core = std::make_shared<http::ServerCore>(std::move(options), std::move(router));
  auto impl = std::make_unique<Impl>(std::move(core));
  if (!impl->core->options.tls_certificate.empty()) {
    QUIRE_ASSIGN_OR_RETURN(impl->tls, http::TlsContext::load(impl->core->options.tls_certificate,
                                                             impl->core->options.tls_key));
  }
  QUIRE_RETURN_IF_ERROR(impl->listen());
  raise_open_files(impl->core->options.limits.connections);
  impl->run_threads();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

std::uint16_t HttpServer::port() const { return impl_->endpoint.port(); }

std::string HttpServer::url() const {
  return fmt::format("{}://{}", impl_->tls ? "https" : "http", address_text(impl_->endpoint));
}

void HttpServer::drain() { impl_->drain(); }

bool HttpServer::wait_drained(std::chrono::steady_clock::time_point deadline) {
  return impl_->core->wait_for_answers(deadline);
}

void HttpServer::stop() { impl_->stop(); }

std::size_t HttpServer::connections() const { return impl_->core->connections(); }

std::size_t HttpServer::answers_under_way() const { return impl_->core->answers(); }

}  // namespace quire
