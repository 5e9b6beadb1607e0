#include "serve/http/log.h"

#include <fmt/format.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <utility>

#include "text/utf8.h"

namespace quire {
namespace {

constexpr std::size_t kQueue = 8192;     // lines
constexpr std::size_t kMaxValue = 1024;  // bytes of one value

constexpr std::array<std::pair<std::string_view, LogLevel>, 5> kLevels{{
    {"debug", LogLevel::kDebug},
    {"info", LogLevel::kInfo},
    {"warning", LogLevel::kWarning},
    {"error", LogLevel::kError},
    {"off", LogLevel::kOff},
}};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

/// A JSON string. Terminals obey control characters in two ranges (C0, and C1 as U+0080 to U+009F),
/// and some programs end a line at U+2028 and U+2029: all of these are escaped.
std::string quoted(std::string_view raw) {
  std::string text = replace_invalid_utf8(raw.substr(0, kMaxValue));
  if (raw.size() > kMaxValue) text += "...";
  std::string out = "\"";
  const auto at = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const unsigned c = at(i);
    if (c == '"' || c == '\\') {
      out += {'\\', static_cast<char>(c)};
    } else if (c < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", c);
    } else if (c == 0xc2 && at(i + 1) >= 0x80 && at(i + 1) < 0xa0) {
      out += fmt::format("\\u{:04x}", at(++i));
    } else if (c == 0xe2 && at(i + 1) == 0x80 && (at(i + 2) == 0xa8 || at(i + 2) == 0xa9)) {
      out += fmt::format("\\u{:04x}", 0x2000 + at(i + 2) - 0x80);
      i += 2;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + '"';
}

/// As it is where that can be read unambiguously, else quoted.
std::string plain_or_quoted(std::string_view text) {
  static constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:[]*";
  return !text.empty() && text.size() <= kMaxValue &&
                 text.find_first_not_of(kPlain) == std::string_view::npos
             ? std::string(text)
             : quoted(text);
}

std::string value_text(const LogField& field, LogFormat format) {
  if (const auto* text = std::get_if<std::string_view>(&field.value))
    return format == LogFormat::kJson ? quoted(*text) : plain_or_quoted(*text);
  if (const auto* number = std::get_if<double>(&field.value)) return fmt::format("{:.6f}", *number);
  return fmt::format("{}", std::get<std::uint64_t>(field.value));
}

/// "2026-11-30T12:00:00.123Z"
std::string timestamp() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, ms % 1000);
}

std::string_view level_name(LogLevel level) {
  return kLevels[static_cast<std::size_t>(level)].first;
}

}  // namespace

Result<LogLevel> parse_log_level(std::string_view name) {
  for (const auto& [text, level] : kLevels)
    if (text == name) return level;
  return fail(ErrorCode::kInvalidArgument,
              "there is no log level {:?}: it is debug, info, warning, error or off", name);
}

Result<LogFormat> parse_log_format(std::string_view name) {
  if (name == "text") return LogFormat::kText;
  if (name == "json") return LogFormat::kJson;
  return fail(ErrorCode::kInvalidArgument, "there is no log format {:?}: it is text or json", name);
}

struct Log::Impl {
  explicit Impl(const LogOptions& log_options) : options(log_options) {
    std::shared_ptr<spdlog::sinks::sink> sink;
    if (options.stream != nullptr)
      sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(*options.stream, true);
    else
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    logger = std::make_shared<spdlog::async_logger>("quire", std::move(sink), pool,
                                                    spdlog::async_overflow_policy::overrun_oldest);
    logger->set_pattern("%v");
    logger->set_level(to_spdlog(options.level));
  }

  LogOptions options;
  // Ends, after what is queued, before the logger does.
  std::shared_ptr<spdlog::details::thread_pool> pool =
      std::make_shared<spdlog::details::thread_pool>(kQueue, 1);
  std::shared_ptr<spdlog::async_logger> logger;
};

Log::Log(const LogOptions& options) : impl_(std::make_unique<Impl>(options)) {}

Log::~Log() { impl_->pool.reset(); }

void Log::event(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (!impl_->logger->should_log(to_spdlog(level))) return;
  const LogFormat format = impl_->options.format;
  std::string line;
  if (format == LogFormat::kJson) {
    line = fmt::format(R"({{"time":"{}","level":"{}","message":{})", timestamp(), level_name(level),
                       quoted(message));
    for (const LogField& field : fields)
      line += fmt::format(",{}:{}", quoted(field.name), value_text(field, format));
    line += '}';
  } else {
    const std::string in_quotes = quoted(message);
    line = fmt::format("{} {} {}", timestamp(), level_name(level),
                       std::string_view(in_quotes).substr(1, in_quotes.size() - 2));
    for (const LogField& field : fields)
      line += fmt::format(" {}={}", field.name, value_text(field, format));
  }
  impl_->logger->log(to_spdlog(level), line);
}

void Log::request(const RequestRecord& record) {
  const bool odd =
      record.status >= 500 || (record.outcome != "ok" && record.outcome != "disconnected");
  event(odd ? LogLevel::kWarning : LogLevel::kInfo, "request",
        {{"id", record.id},
         {"method", record.method},
         {"path", record.path},
         {"status", static_cast<std::uint64_t>(std::max(0, record.status))},
         {"bytes", record.body_bytes},
         {"seconds", record.seconds},
         {"tenant", record.tenant},
         {"remote", record.remote},
         {"outcome", record.outcome}});
}

}  // namespace quire
