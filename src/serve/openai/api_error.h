#pragma once
// Errors as clients of OpenAI's API expect them.

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "base/result.h"

namespace quire::openai {

struct ApiError {
  int http_status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;  // the field at fault, e.g. "messages[2].content"; empty: null
  std::string code;   // for programs, e.g. "invalid_type"; empty: null
};

template <typename T>
using ApiResult = tl::expected<T, ApiError>;

/// {"error": {"message", "type", "param", "code"}}, without a newline.
std::string to_json(const ApiError& error);

/// A 400 about one field.
template <typename... Args>
ApiError invalid_field(std::string param, std::string code, fmt::format_string<Args...> format,
                       Args&&... args) {
  return ApiError{.message = fmt::format(format, std::forward<Args>(args)...),
                  .param = std::move(param),
                  .code = std::move(code)};
}

/// For a route that does not exist, and a method it does not have.
ApiError unknown_route(std::string_view method, std::string_view path);

/// `what`: "messages", "prompt" or "input", which holds more tokens than the context.
ApiError context_exceeded(std::string_view what, std::size_t n_tokens, std::size_t context);

/// Why a request was not taken: what the caller asked for is at fault unless the code says
/// otherwise. kOutOfMemory is here what could never fit.
ApiError refusal(const Error& error);

/// Why an answer broke off: the request was taken, so the server is at fault.
ApiError failure(const Error& error);

}  // namespace quire::openai

namespace quire {

/// For QUIRE_ASSIGN_OR_RETURN and QUIRE_RETURN_IF_ERROR with an ApiResult.
[[nodiscard]] inline tl::unexpected<openai::ApiError> fail(openai::ApiError error) {
  return tl::unexpected<openai::ApiError>(std::move(error));
}

}  // namespace quire
