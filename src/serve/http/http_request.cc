#include "serve/http/http_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "base/hex.h"

namespace quire {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// nullopt where a % has no two hexadecimal digits behind it.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += plus_is_space && text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (text.size() - i < 3) return std::nullopt;
    const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

bool parse_query(std::string_view text, HttpRequest& request) {
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');
    auto name = percent_decode(part.substr(0, equals), true);
    auto value = percent_decode(
        equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1), true);
    if (!name || !value) return false;
    request.query.emplace_back(std::move(*name), std::move(*value));
  }
  return true;
}

}  // namespace

std::optional<std::string_view> HttpRequest::header(std::string_view name) const {
  for (const HttpHeader& header : headers)
    if (http::equal_ignoring_case(header.name, name)) return header.value;
  return std::nullopt;
}

std::optional<std::string_view> HttpRequest::parameter(std::string_view name) const {
  for (const auto& [key, value] : query)
    if (key == name) return value;
  return std::nullopt;
}

namespace http {

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

bool parse_target(std::string_view target, HttpRequest& request) {
  request.query.clear();
  if (target == "*") {
    request.path.assign(1, '*');
    return true;
  }
  if (const std::size_t scheme = target.find("://");
      scheme != std::string_view::npos && !target.starts_with('/')) {
    if (!equal_ignoring_case(target.substr(0, scheme), "http") &&
        !equal_ignoring_case(target.substr(0, scheme), "https"))
      return false;
    const std::size_t path = target.find_first_of("/?", scheme + 3);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  target = target.substr(0, target.find('#'));
  const std::size_t question = target.find('?');
  auto path = percent_decode(target.substr(0, question), false);
  if (!path || !path->starts_with('/') || path->find('\0') != std::string::npos) return false;
  request.path = std::move(*path);
  return question == std::string_view::npos || parse_query(target.substr(question + 1), request);
}

bool valid_request_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), [](char c) {
    return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == ':' || c == '-';
  });
}

std::string new_request_id() {
  thread_local std::mt19937_64 random = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  const std::uint64_t high = random(), low = random();
  return fmt::format("req-{:016x}{:016x}", high, low);
}

}  // namespace http
}  // namespace quire
