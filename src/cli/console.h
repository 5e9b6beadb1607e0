#pragma once
// Standard streams as a command uses them: results to standard output, everything for the person
// in front of it to standard error.

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/command.h"

namespace quire {

void write_stderr(std::string_view text);

template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  write_stderr(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[nodiscard]] int usage_error(fmt::format_string<Args...> format, Args&&... args) {
  say("quire: {}\n", fmt::format(format, std::forward<Args>(args)...));
  return kExitUsage;
}

/// Says it in one line: what a file put into the message cannot move the cursor or add a line.
[[nodiscard]] int failure(const Error& error);

/// Standard output without a buffer, so that text appears when it is written.
class Output {
 public:
  /// False when nothing more can be written: the reader went away, or the system refused.
  bool write(std::string_view text);

  bool is_open() const { return error_ == 0; }

  /// kExitOk if everything was written or the reader did not want more (`quire … | head`);
  /// otherwise says why and gives kExitFailure.
  [[nodiscard]] int finish() const;

 private:
  int error_ = 0;  // errno of the write that failed
};

/// Of what is read at once: /dev/zero has no end, and nothing that a model could read is longer.
inline constexpr std::size_t kMaxReadBytes = std::size_t{256} << 20;

/// A whole file, "-" for standard input.
Result<std::string> read_text(const std::filesystem::path& path);

/// What to call it in a sentence.
std::string text_name(const std::filesystem::path& path);

/// The next line of standard input without its newline (a carriage return before it included);
/// false at the end or on Ctrl-C. A line longer than kMaxReadBytes is an error.
Result<bool> read_line(std::string& line);

/// While it lives, the first Ctrl-C only sets a flag. The second ends the process at once.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool interrupted();
  /// Ready for the next Ctrl-C.
  void rearm();
};

}  // namespace quire
