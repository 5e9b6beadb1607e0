#include "base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/stopwatch.h"

namespace quire {
namespace {

constexpr double kQuietSeconds = 1.0;
constexpr double kRedrawSeconds = 0.1;
constexpr std::size_t kBarColumns = 24;

}  // namespace

Progress::Environment Progress::standard_error() {
  Environment environment;
  environment.is_terminal = ::isatty(STDERR_FILENO) == 1;
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    environment.columns = size.ws_col;
  }
  environment.seconds = [watch = Stopwatch()] { return watch.seconds(); };
  environment.output = [](std::string_view text) {
    // A bar that cannot be drawn is no reason to stop the work.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  };
  return environment;
}

Progress::Progress(std::string label, Environment environment)
    : label_(std::move(label)), environment_(std::move(environment)) {
  started_ = environment_.seconds();
}

Progress::~Progress() { finish(); }

void Progress::update(double fraction, std::string_view note) {
  if (!environment_.is_terminal) return;
  const double now = environment_.seconds();
  if (now - started_ < kQuietSeconds) return;
  if (visible_ && now - drawn_at_ < kRedrawSeconds) return;
  drawn_at_ = now;
  visible_ = true;

  fraction = std::clamp(fraction, 0.0, 1.0);
  const auto full = static_cast<std::size_t>(fraction * static_cast<double>(kBarColumns));
  std::string line = fmt::format("{} [{:#<{}}{:.<{}}] {:3.0f}%", label_, "", full, "",
                                 kBarColumns - full, fraction * 100);
  if (!note.empty()) line += fmt::format("  {}", note);
  line.resize(std::min(line.size(), environment_.columns - 1));  // a wrapped line cannot be wiped
  environment_.output(fmt::format("\r\x1b[K{}", line));
}

void Progress::finish() {
  if (std::exchange(visible_, false)) environment_.output("\r\x1b[K");
}

}  // namespace quire
