#pragma once
// The bytes of one connection, with or without TLS. For the sources of this folder only: it needs
// Asio, whose headers are heavy.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"

namespace quire::http {

namespace asio = boost::asio;
using boost::system::error_code;

/// Errors are among the results that are awaited.
constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

/// Everything runs on the socket's executor, which is a strand. One read and one write may be under
/// way at a time.
class Transport {
 public:
  using ReadHandler = std::function<void(error_code, std::size_t)>;

  virtual ~Transport() = default;
  virtual asio::awaitable<error_code> handshake() = 0;
  virtual void read(asio::mutable_buffer into, ReadHandler handler) = 0;
  /// The number of bytes written; 0 on failure.
  virtual asio::awaitable<std::size_t> write_some(asio::const_buffer bytes) = 0;
  /// Says to the client that nothing follows.
  virtual asio::awaitable<void> shutdown() = 0;
  /// Ends whatever is under way.
  virtual void close() = 0;
};

std::unique_ptr<Transport> plain_transport(asio::ip::tcp::socket socket);

/// The certificate and key of a server.
class TlsContext {
 public:
  static Result<std::shared_ptr<TlsContext>> load(const std::string& certificate_file,
                                                  const std::string& key_file);
  virtual ~TlsContext() = default;
  virtual std::unique_ptr<Transport> transport(asio::ip::tcp::socket socket) = 0;
};

}  // namespace quire::http
