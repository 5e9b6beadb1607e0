#pragma once
// A client over a real socket that can misbehave, and a server for it.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "serve/http/http_request.h"
#include "serve/http/http_server.h"
#include "serve/http/router.h"

namespace quire::testing {

/// How long anything may take before a test fails. Nothing is expected to take so long.
constexpr std::chrono::seconds kPatience{20};

inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::milliseconds patience = kPatience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

struct ClientResponse {
  int status = 0;    // 0: the connection ended without one
  HttpRequest head;  // its headers
  std::string body;
  bool whole = false;  // the body ended as it should

  std::string header(std::string_view name) const {
    return std::string(head.header(name).value_or(""));
  }
};

class Client {
 public:
  explicit Client(std::uint16_t port, int receive_buffer = 0) {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer != 0)
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  Client(Client&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        connected_(other.connected_),
        received_(std::move(other.received_)) {}
  Client& operator=(Client&&) = delete;
  ~Client() { close(); }

  bool connected() const { return connected_; }
  int fd() const { return fd_; }

  /// False if the server has closed the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  void request(std::string_view method, std::string_view path, std::string_view body = {},
               std::string_view headers = {}) {
    std::string text(method);
    text.append(" ").append(path).append(" HTTP/1.1\r\nHost: test\r\n").append(headers);
    if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    send(text.append("\r\n").append(body));
  }

  /// Reads more; false at the end of the connection.
  bool receive() {
    char bytes[16384];
    const ssize_t n = ::recv(fd_, bytes, sizeof(bytes), 0);
    if (n <= 0) return false;
    received_.append(bytes, static_cast<std::size_t>(n));
    return true;
  }
  /// Everything up to and including `text`; empty if the connection ends before.
  std::string receive_until(std::string_view text) {
    std::size_t at;
    while ((at = received_.find(text)) == std::string::npos)
      if (!receive()) return {};
    std::string taken = received_.substr(0, at + text.size());
    received_.erase(0, taken.size());
    return taken;
  }
  std::string receive_to_end() {
    while (receive()) {
    }
    return std::exchange(received_, {});
  }
  bool at_end() { return receive_to_end().empty(); }

  ClientResponse response(bool head_only = false) {
    ClientResponse response;
    read_head(response);
    const bool no_body = head_only || response.status == 204 || response.status < 200;
    if (response.status == 0 || no_body) {
      response.whole = response.status != 0;
    } else if (equal(response.header("Transfer-Encoding"), "chunked")) {
      read_chunks(response);
    } else if (const std::string length = response.header("Content-Length"); !length.empty()) {
      const std::size_t n = std::strtoull(length.c_str(), nullptr, 10);
      while (received_.size() < n && receive()) {
      }
      response.whole = received_.size() >= n;
      response.body = received_.substr(0, n);
      received_.erase(0, n);
    } else {
      response.body = receive_to_end();
      response.whole = true;
    }
    return response;
  }
  void read_head(ClientResponse& response) {
    std::string head = receive_until("\r\n\r\n");
    if (head.size() < 12) return;
    response.status = std::atoi(head.c_str() + 9);
    std::size_t line = head.find("\r\n") + 2;
    for (std::size_t end; (end = head.find("\r\n", line)) != line; line = end + 2) {
      const std::size_t colon = head.find(": ", line);
      response.head.headers.push_back(
          {head.substr(line, colon - line), head.substr(colon + 2, end - colon - 2)});
    }
  }

  void half_close() { ::shutdown(fd_, SHUT_WR); }
  /// Closes with a reset, as a crashed program with unread data does.
  void reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close();
  }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  static bool equal(std::string_view a, std::string_view b) { return a == b; }

  void read_chunks(ClientResponse& response) {
    for (;;) {
      const std::string line = receive_until("\r\n");
      if (line.empty()) return;
      const std::size_t n = std::strtoull(line.c_str(), nullptr, 16);
      while (received_.size() < n + 2)
        if (!receive()) return;
      if (received_.substr(n, 2) != "\r\n") return;
      response.body += received_.substr(0, n);
      received_.erase(0, n + 2);
      if (n == 0) break;
    }
    response.whole = true;
  }

  int fd_ = -1;
  bool connected_ = false;
  std::string received_;
};

/// What the server under test answers on any free port, or the test fails.
inline std::unique_ptr<HttpServer> serve(Router router, HttpServerOptions options = {}) {
  options.port = 0;
  auto server = HttpServer::start(std::move(options), std::move(router));
  EXPECT_TRUE(server) << (server ? "" : server.error().message);
  return server ? std::move(*server) : nullptr;
}

/// GET /hello says hello; POST /echo says what it got.
inline Router simple_routes() {
  Router router;
  router.add("GET", "/hello", [](const HttpRequest&, const std::shared_ptr<Responder>& to) {
    to->respond(200, "text/plain", "hello");
  });
  router.add("POST", "/echo", [](HttpRequest request, const std::shared_ptr<Responder>& to) {
    to->respond(200, "text/plain", std::move(request.body));
  });
  return router;
}

}  // namespace quire::testing
