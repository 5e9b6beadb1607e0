#include "serve/http/response_head.h"

#include <fmt/format.h>

#include <array>
#include <boost/json.hpp>
#include <iterator>
#include <utility>

#include "text/utf8.h"

namespace quire::http {
namespace {

void append_header(std::string& wire, std::string_view name, std::string_view value) {
  wire.append(name).append(": ");
  for (const char c : value) wire += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  wire += "\r\n";
}

}  // namespace

std::string_view reason_phrase(int status) {
  static constexpr std::array<std::pair<int, std::string_view>, 25> kPhrases{{
      {100, "Continue"},
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {204, "No Content"},
      {301, "Moved Permanently"},
      {302, "Found"},
      {304, "Not Modified"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {413, "Content Too Large"},
      {415, "Unsupported Media Type"},
      {417, "Expectation Failed"},
      {422, "Unprocessable Content"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
      {505, "HTTP Version Not Supported"},
  }};
  for (const auto& [code, phrase] : kPhrases)
    if (code == status) return phrase;
  return "Unknown";
}

std::string http_date(std::time_t when) {
  static constexpr std::array<std::string_view, 7> kDays{"Sun", "Mon", "Tue", "Wed",
                                                         "Thu", "Fri", "Sat"};
  static constexpr std::array<std::string_view, 12> kMonths{
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm utc{};
  ::gmtime_r(&when, &utc);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
                     kDays[static_cast<std::size_t>(utc.tm_wday)], utc.tm_mday,
                     kMonths[static_cast<std::size_t>(utc.tm_mon)], utc.tm_year + 1900, utc.tm_hour,
                     utc.tm_min, utc.tm_sec);
}

std::string format_head(const ResponseHead& head, const Framing& framing) {
  std::string wire = fmt::format("HTTP/1.1 {} {}\r\n", head.status, reason_phrase(head.status));
  append_header(wire, "Date", http_date(std::time(nullptr)));
  if (!head.content_type.empty()) append_header(wire, "Content-Type", head.content_type);
  const bool never_has_body = head.status < 200 || head.status == 204 || head.status == 304;
  if (framing.length && !never_has_body)
    append_header(wire, "Content-Length", fmt::format("{}", *framing.length));
  else if (!framing.length && !framing.until_close && !never_has_body)
    append_header(wire, "Transfer-Encoding", "chunked");
  append_header(wire, "Connection", framing.keep_alive ? "keep-alive" : "close");
  if (!framing.request_id.empty()) append_header(wire, "x-request-id", framing.request_id);
  for (const HttpHeader& header : head.headers) append_header(wire, header.name, header.value);
  wire += "\r\n";
  return wire;
}

std::string error_body(std::string_view message, std::string_view type, std::string_view code) {
  namespace json = boost::json;
  json::object error{
      {"message", replace_invalid_utf8(message)}, {"type", type}, {"param", nullptr}};
  error["code"] = code.empty() ? json::value(nullptr) : json::value(code);
  return json::serialize(json::object{{"error", std::move(error)}});
}

Reply error_reply(int status, std::string_view code, std::string_view message,
                  HttpHeaders headers) {
  const std::string_view type = status >= 500 ? "server_error" : "invalid_request_error";
  return {
      .head = {.status = status, .content_type = "application/json", .headers = std::move(headers)},
      .body = error_body(message, type, code)};
}

}  // namespace quire::http
