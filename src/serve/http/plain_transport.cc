#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "serve/http/transport.h"

namespace quire::http {
namespace {

class PlainTransport : public Transport {
 public:
  explicit PlainTransport(asio::ip::tcp::socket socket) : socket_(std::move(socket)) {}

  asio::awaitable<error_code> handshake() override { co_return error_code{}; }

  void read(asio::mutable_buffer into, ReadHandler handler) override {
    socket_.async_read_some(into, std::move(handler));
  }

  asio::awaitable<std::size_t> write_some(asio::const_buffer bytes) override {
    const auto [ec, n] = co_await socket_.async_write_some(bytes, kNoThrow);
    co_return ec ? 0 : n;
  }

  asio::awaitable<void> shutdown() override {
    error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    co_return;
  }

  void close() override {
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  asio::ip::tcp::socket socket_;
};

}  // namespace

std::unique_ptr<Transport> plain_transport(asio::ip::tcp::socket socket) {
  return std::make_unique<PlainTransport>(std::move(socket));
}

}  // namespace quire::http
