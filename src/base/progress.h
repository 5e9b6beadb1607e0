#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace quire {

/// A progress bar on standard error: only when that is a terminal, only once the work has taken
/// more than a second, and gone when the work is done.
class Progress {
 public:
  /// Where a bar is drawn and what time it is, so that tests need neither a terminal nor patience.
  struct Environment {
    bool is_terminal = false;
    std::size_t columns = 80;
    std::function<double()> seconds;               // a steady clock
    std::function<void(std::string_view)> output;  // bytes for the terminal
  };
  static Environment standard_error();

  explicit Progress(std::string label, Environment environment = standard_error());
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// fraction in [0, 1]; `note` stands behind the bar ("12/40 windows").
  void update(double fraction, std::string_view note = {});

  /// Wipes the bar; idempotent. For work that prints before it ends.
  void finish();

 private:
  std::string label_;
  Environment environment_;
  double started_ = 0;
  double drawn_at_ = 0;
  bool visible_ = false;
};

}  // namespace quire
