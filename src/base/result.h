#pragma once
// Results for what a user or a machine can cause. A programmer's mistake is a QUIRE_CHECK instead.

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace quire {

enum class ErrorCode {
  kInvalidArgument,  // the caller asked for something that makes no sense
  kInvalidData,      // bytes from outside (a file, a peer) are not what they claim to be
  kNotFound,         // a file, tensor, key or id does not exist
  kUnsupported,      // well formed, but nothing here can do it
  kOutOfMemory,      // a budget or the machine has no room; the message gives both numbers
  kIo,               // the operating system refused
  kBusy,             // too much is waiting already; later it may do
  kUnavailable,      // it is about to end and takes nothing new
};

struct Error {
  ErrorCode code;
  std::string message;  // one sentence for a person, without a trailing newline
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = tl::expected<void, Error>;

/// Builds the failure of a Result: `return fail(ErrorCode::kIo, "cannot open {}: {}", path, why);`
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

/// Passes on the failure of another Result, whatever its value type.
[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace quire

#define QUIRE_CONCAT_INNER(a, b) a##b
#define QUIRE_CONCAT(a, b) QUIRE_CONCAT_INNER(a, b)

/// Returns the failure of `expr` (a Result or Status) from the current function, if it has one.
#define QUIRE_RETURN_IF_ERROR(expr)                          \
  do {                                                       \
    if (auto quire_status = (expr); !quire_status)           \
      return ::quire::fail(std::move(quire_status).error()); \
  } while (false)

/// `QUIRE_ASSIGN_OR_RETURN(auto file, MappedFile::open(path));`
#define QUIRE_ASSIGN_OR_RETURN(declaration, expr) \
  QUIRE_ASSIGN_OR_RETURN_INNER(QUIRE_CONCAT(quire_result_, __LINE__), declaration, expr)
#define QUIRE_ASSIGN_OR_RETURN_INNER(result, declaration, expr) \
  auto result = (expr);                                         \
  if (!result) return ::quire::fail(std::move(result).error()); \
  declaration = std::move(*result)
