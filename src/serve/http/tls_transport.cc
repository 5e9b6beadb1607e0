#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "serve/http/transport.h"

namespace quire::http {
namespace {

class TlsTransport : public Transport {
 public:
  TlsTransport(std::shared_ptr<asio::ssl::context> context, asio::ip::tcp::socket socket)
      : context_(std::move(context)), stream_(std::move(socket), *context_) {}

  asio::awaitable<error_code> handshake() override {
    const auto [ec] = co_await stream_.async_handshake(asio::ssl::stream_base::server, kNoThrow);
    co_return ec;
  }

  void read(asio::mutable_buffer into, ReadHandler handler) override {
    stream_.async_read_some(into, std::move(handler));
  }

  asio::awaitable<std::size_t> write_some(asio::const_buffer bytes) override {
    const auto [ec, n] = co_await stream_.async_write_some(bytes, kNoThrow);
    co_return ec ? 0 : n;
  }

  asio::awaitable<void> shutdown() override {
    co_await stream_.async_shutdown(kNoThrow);
    error_code ignored;
    stream_.next_layer().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  }

  void close() override {
    error_code ignored;
    stream_.next_layer().close(ignored);
  }

 private:
  std::shared_ptr<asio::ssl::context> context_;
  asio::ssl::stream<asio::ip::tcp::socket> stream_;
};

class OpenSslContext : public TlsContext {
 public:
  explicit OpenSslContext(std::shared_ptr<asio::ssl::context> context)
      : context_(std::move(context)) {}

  std::unique_ptr<Transport> transport(asio::ip::tcp::socket socket) override {
    return std::make_unique<TlsTransport>(context_, std::move(socket));
  }

 private:
  std::shared_ptr<asio::ssl::context> context_;
};

/// OpenSSL's reason for its last failure.
std::string reason() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* text = ERR_reason_error_string(code);
  return text != nullptr ? text : "unknown reason";
}

/// Chooses HTTP/1.1 where a client offers several protocols (RFC 7301: names with their lengths).
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* n_chosen,
                    const unsigned char* offered, unsigned n_offered, void*) {
  static constexpr unsigned char kHttp11[] = "\x08http/1.1";
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, n_chosen, kHttp11, sizeof(kHttp11) - 1, offered, n_offered) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_NOACK;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

/// No terminal is asked for the pass phrase of a key.
int no_pass_phrase(char*, int, int, void*) { return 0; }

}  // namespace

Result<std::shared_ptr<TlsContext>> TlsContext::load(const std::string& certificate_file,
                                                     const std::string& key_file) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  SSL_CTX* native = context->native_handle();
  ERR_clear_error();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                  SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
  // An idle connection keeps no buffers of a record's size.
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(native, choose_protocol, nullptr);
  SSL_CTX_set_default_passwd_cb(native, no_pass_phrase);
  for (const std::string& file : {certificate_file, key_file}) {
    std::error_code none;
    if (std::filesystem::exists(file, none) && !std::filesystem::is_regular_file(file, none))
      return fail(ErrorCode::kInvalidArgument, "cannot use {} for TLS: it is not a regular file",
                  file);
  }
  if (SSL_CTX_use_certificate_chain_file(native, certificate_file.c_str()) != 1)
    return fail(ErrorCode::kInvalidArgument, "cannot use {} as a TLS certificate (PEM): {}",
                certificate_file, reason());
  if (SSL_CTX_use_PrivateKey_file(native, key_file.c_str(), SSL_FILETYPE_PEM) != 1)
    return fail(ErrorCode::kInvalidArgument,
                "cannot use {} as the TLS key of {} (PEM, without pass phrase): {}", key_file,
                certificate_file, reason());
  return std::make_shared<OpenSslContext>(std::move(context));
}

}  // namespace quire::http
