#include "base/thread_budget.h"

#include <algorithm>

namespace quire {
namespace {

/// Long enough to see a few time slices of a neighbour, short enough that nobody notices.
constexpr double kWindowS = 0.05;
/// A trial costs a window at the worse speed: a tenth of the time at first, then less and less.
constexpr double kFirstPatienceS = 0.5;
constexpr double kMostPatienceS = 8;

}  // namespace

void ThreadBudget::observe(double run_s, double lost_s) {
  window_s_ += run_s;
  window_lost_s_ += std::clamp(lost_s, 0.0, run_s);
  quiet_s_ += run_s;
  if (window_s_ < kWindowS) return;
  const double share = window_lost_s_ / window_s_;
  start_window();
  if (n_active_ > 1 && share * static_cast<double>(n_active_) > 1) {
    --n_active_;
    patience_s_ = on_trial_ ? std::min(2 * patience_s_, kMostPatienceS) : kFirstPatienceS;
    quiet_s_ = 0;
    on_trial_ = false;
    return;
  }
  if (on_trial_) {
    on_trial_ = false;
    quiet_s_ = 0;
    patience_s_ = kFirstPatienceS;
  }
  if (n_active_ < n_threads_ && quiet_s_ >= patience_s_) {
    ++n_active_;
    on_trial_ = true;
  }
}

void ThreadBudget::start_window() { window_s_ = window_lost_s_ = 0; }

}  // namespace quire
