#include "cli/console.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/bytes.h"
#include "model/gguf_text.h"

namespace quire {
namespace {

constexpr std::size_t kMaxMessageBytes = 8192;  // two paths of the longest kind

volatile std::sig_atomic_t interrupt_seen = 0;

void on_interrupt(int) { interrupt_seen = 1; }

// errno, or 0 when all is written.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

/// Waits until there is something to read; false if interrupted. The signal is let in only while it
/// waits, so that none is lost between looking and waiting. (Other threads let none in.)
bool wait_for_input() {
  sigset_t interrupt;
  sigset_t before;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, &before);
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  while (!InterruptGuard::interrupted()) {
    if (::ppoll(&input, 1, nullptr, &before) > 0 || errno != EINTR) break;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return !InterruptGuard::interrupted();
}

tl::unexpected<Error> too_long(std::string_view name) {
  return fail(ErrorCode::kInvalidArgument, "{} holds more than the {} allowed", name,
              format_byte_size(kMaxReadBytes));
}

Result<std::string> read_all(int fd, std::string_view name) {
  std::string text;
  std::array<char, 65536> buffer;
  while (true) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(ErrorCode::kIo, "cannot read {}: {}", name, std::strerror(errno));
    if (n == 0) return text;
    if (text.size() + static_cast<std::size_t>(n) > kMaxReadBytes) return too_long(name);
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace

void write_stderr(std::string_view text) {
  // Where standard error is closed there is nobody to tell.
  [[maybe_unused]] const int error = write_all(STDERR_FILENO, text);
}

int failure(const Error& error) {
  say("quire: {}\n", printable(error.message, kMaxMessageBytes));
  return kExitFailure;
}

bool Output::write(std::string_view text) {
  if (error_ == 0) error_ = write_all(STDOUT_FILENO, text);
  return error_ == 0;
}

int Output::finish() const {
  if (error_ == 0 || error_ == EPIPE) return kExitOk;
  say("quire: cannot write to standard output: {}\n", std::strerror(error_));
  return kExitFailure;
}

Result<std::string> read_text(const std::filesystem::path& path) {
  if (path == "-") return read_all(STDIN_FILENO, "standard input");
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return fail(ErrorCode::kIo, "cannot open {}: {}", path.string(), std::strerror(errno));
  }
  auto text = read_all(fd, path.string());
  ::close(fd);
  return text;
}

std::string text_name(const std::filesystem::path& path) {
  return path == "-" ? "standard input" : path.string();
}

Result<bool> read_line(std::string& line) {
  static std::string pending;  // read, but behind the line that was asked for
  line.clear();
  std::size_t searched = 0;
  while (true) {
    if (const auto end = pending.find('\n', searched); end != std::string::npos) {
      line = pending.substr(0, end);
      pending.erase(0, end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return true;
    }
    searched = pending.size();
    if (!wait_for_input()) return false;
    std::array<char, 4096> buffer;
    const ssize_t n = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return fail(ErrorCode::kIo, "cannot read standard input: {}", std::strerror(errno));
    }
    if (n == 0) {
      line = std::exchange(pending, {});  // a last line without a newline
      return !line.empty();
    }
    if (pending.size() > kMaxReadBytes) return too_long("a line of standard input");
    pending.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

InterruptGuard::InterruptGuard() { rearm(); }

InterruptGuard::~InterruptGuard() { std::signal(SIGINT, SIG_DFL); }

bool InterruptGuard::interrupted() { return interrupt_seen != 0; }

void InterruptGuard::rearm() {
  interrupt_seen = 0;
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  // Without SA_RESTART a read of the next line ends; after one signal the default returns.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace quire
