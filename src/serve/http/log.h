#pragma once
// One line per request and event, to standard error.

#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "serve/http/http_options.h"

namespace quire {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };
enum class LogFormat { kText, kJson };

/// By their names: debug, info, warning, error, off; text, json.
Result<LogLevel> parse_log_level(std::string_view name);
Result<LogFormat> parse_log_format(std::string_view name);

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  std::ostream* stream = nullptr;  // null: standard error
};

struct LogField {
  std::string_view name;
  std::variant<std::string_view, std::uint64_t, double> value;
};

/// All functions may be called from any thread and return at once: lines are written by a thread of
/// the log's own, and the oldest are dropped while more than 8,192 wait.
///
/// Whatever a client sends stays inside of its value: control characters and quotes are escaped,
/// and invalid UTF-8 is replaced.
class Log {
 public:
  explicit Log(const LogOptions& options);
  /// Writes what is left.
  ~Log();

  void event(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});
  /// At level info; a warning where the server is at fault (5xx) or the answer was cut.
  void request(const RequestRecord& record);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
