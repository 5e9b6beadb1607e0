#pragma once
// What a server is started with.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace quire {

class ApiKeys;

/// What a client may cost. docs/http.md says what happens at each.
struct HttpLimits {
  std::size_t header_bytes = 16u << 10;
  std::size_t body_bytes = 16u << 20;
  std::size_t receiving_bytes = 256u << 20;  // of all bodies that are not yet complete
  std::size_t unsent_bytes = 1u << 20;       // of a stream, waiting for a slow reader
  std::size_t connections = 4096;
  std::chrono::milliseconds header_timeout{10'000};  // from the first byte to the end of the head
  std::chrono::milliseconds body_timeout{60'000};    // for the whole body
  std::chrono::milliseconds idle_timeout{60'000};    // between two requests of a connection
  std::chrono::milliseconds write_timeout{30'000};   // without a single byte taken by the client
};

/// One request at its end.
struct RequestRecord {
  std::string_view id{};
  std::string_view method{};  // empty where the request was too malformed to have one
  std::string_view path{};
  std::string_view route{};  // as it was added to the router; empty where none matched
  std::string_view tenant{};
  std::string_view remote{};
  std::string_view outcome{};    // "ok", "disconnected", "too_slow", "dropped"
  int status = 0;                // 0: the client went before there was one
  std::uint64_t body_bytes = 0;  // of the answer
  double seconds = 0;            // from the first byte of the request to the last of the answer
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // an IPv4 or IPv6 address, or localhost
  std::uint16_t port = 8080;       // 0: any that is free
  unsigned io_threads = 2;
  HttpLimits limits;
  std::shared_ptr<const ApiKeys> keys;  // none: nobody needs a key
  std::string tls_certificate;          // PEM files, both or neither
  std::string tls_key;
  /// Called on an io thread for every request, refused ones too; it must not block.
  std::function<void(const RequestRecord&)> on_request;
};

}  // namespace quire
