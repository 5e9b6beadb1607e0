#pragma once
// What stands before a body on the wire, and the answers that the server gives itself.

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http/http_request.h"

namespace quire::http {

struct ResponseHead {
  int status = 200;
  std::string content_type;  // empty: no such header
  HttpHeaders headers;
};

/// A whole answer.
struct Reply {
  ResponseHead head;
  std::string body;
};

/// What the connection adds to a head.
struct Framing {
  std::optional<std::uint64_t> length;  // of the body; nullopt: chunked
  bool until_close = false;             // HTTP/1.0 knows no chunks: the end of the connection is it
  bool keep_alive = true;
  std::string_view request_id;
};

std::string_view reason_phrase(int status);

/// "Mon, 30 Nov 2026 12:00:00 GMT"
std::string http_date(std::time_t when);

/// The status line and all headers with the empty line. Control characters in values become spaces,
/// so no value can begin a header of its own.
std::string format_head(const ResponseHead& head, const Framing& framing);

/// {"error":{"message","type","param":null,"code"}}
std::string error_body(std::string_view message, std::string_view type, std::string_view code);

/// The same as a whole answer; the type follows from the status.
Reply error_reply(int status, std::string_view code, std::string_view message,
                  HttpHeaders headers = {});

}  // namespace quire::http
