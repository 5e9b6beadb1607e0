#include "serve/openai/api_error.h"

#include <boost/json.hpp>

#include "text/utf8.h"

namespace quire::openai {
namespace {

namespace json = boost::json;

json::value text_or_null(const std::string& text) {
  if (text.empty()) return nullptr;
  return json::value(replace_invalid_utf8(text));
}

ApiError server_error(int http_status, std::string code, std::string message) {
  return ApiError{.http_status = http_status,
                  .message = std::move(message),
                  .type = "server_error",
                  .param = {},
                  .code = std::move(code)};
}

}  // namespace

std::string to_json(const ApiError& error) {
  return json::serialize(
      json::object{{"error", json::object{{"message", replace_invalid_utf8(error.message)},
                                          {"type", replace_invalid_utf8(error.type)},
                                          {"param", text_or_null(error.param)},
                                          {"code", text_or_null(error.code)}}}});
}

ApiError unknown_route(std::string_view method, std::string_view path) {
  return ApiError{.http_status = 404,
                  .message = fmt::format("Invalid URL ({} {})", method, path),
                  .param = {},
                  .code = "unknown_url"};
}

ApiError context_exceeded(std::string_view what, std::size_t n_tokens, std::size_t context) {
  return invalid_field(std::string(what), "context_length_exceeded",
                       "This model's maximum context length is {} tokens, of which at least one "
                       "must be left for the answer. However, your {} resulted in {} tokens. "
                       "Please reduce the length of the {}.",
                       context, what, n_tokens, what);
}

ApiError refusal(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kInvalidData:
      return ApiError{.message = error.message, .param = {}, .code = "invalid_value"};
    case ErrorCode::kUnsupported:
      return ApiError{.message = error.message, .param = {}, .code = "unsupported_value"};
    case ErrorCode::kNotFound:
      return ApiError{
          .http_status = 404, .message = error.message, .param = {}, .code = "not_found"};
    case ErrorCode::kOutOfMemory:
      return ApiError{.message = error.message, .param = {}, .code = "request_too_large"};
    case ErrorCode::kBusy:
      return ApiError{.http_status = 429,
                      .message = error.message,
                      .type = "rate_limit_error",
                      .param = {},
                      .code = "rate_limit_exceeded"};
    case ErrorCode::kUnavailable:
      return server_error(503, "unavailable", error.message);
    case ErrorCode::kIo:
      break;
  }
  return server_error(500, "internal_error", error.message);
}

ApiError failure(const Error& error) {
  if (error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kBusy)
    return server_error(503, "unavailable", error.message);
  return server_error(500, "internal_error", error.message);
}

}  // namespace quire::openai
