// libFuzzer target: any bytes, cut anywhere, are what a client sends.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "serve/http/request_parser.h"

namespace quire::http {
namespace {

constexpr HttpLimits kLimits{.header_bytes = 2000, .body_bytes = 5000};

struct Outcome {
  RequestParser::State state;
  std::string method, path, body;
  std::size_t n_headers;
};

/// The first request of `bytes`, which come in pieces of `step`.
Outcome parse(const std::string& bytes, std::size_t step) {
  RequestParser parser(kLimits);
  std::string inbox;
  std::size_t at = 0;
  for (RequestParser::State state = RequestParser::State::kHead;;) {
    const RequestParser::State before = state;
    state = parser.feed(inbox);
    QUIRE_CHECK(inbox.size() <= kLimits.header_bytes + step || state != before ||
                state == RequestParser::State::kDone || state == RequestParser::State::kFailed);
    if (state == RequestParser::State::kDone || state == RequestParser::State::kFailed) break;
    if (state != before) continue;
    if (at >= bytes.size()) break;
    inbox.append(bytes, at, step);
    at += step;
  }
  const HttpRequest& request = parser.request();
  QUIRE_CHECK(request.body.size() <= kLimits.body_bytes);
  if (parser.state() == RequestParser::State::kFailed) {
    QUIRE_CHECK(parser.failure().head.status >= 400 && !parser.failure().body.empty());
    return {.state = parser.state(), .method = {}, .path = {}, .body = {}, .n_headers = 0};
  }
  if (parser.state() == RequestParser::State::kDone)
    QUIRE_CHECK(!request.path.empty() && request.path.find('\0') == std::string::npos);
  return {parser.state(), request.method, request.path, request.body, request.headers.size()};
}

}  // namespace
}  // namespace quire::http

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using quire::http::parse;
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = parse(bytes, std::max<std::size_t>(1, bytes.size()));
  const auto cut = parse(bytes, 1 + data[0] % 64);
  // A network may cut where it likes: a request is the same. (What is malformed may be found out
  // sooner or later.)
  const auto done = quire::http::RequestParser::State::kDone;
  QUIRE_CHECK((whole.state == done) == (cut.state == done));
  QUIRE_CHECK(whole.state != done || (whole.method == cut.method && whole.path == cut.path &&
                                      whole.body == cut.body && whole.n_headers == cut.n_headers));
  return 0;
}
