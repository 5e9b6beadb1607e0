#pragma once

#include <cstddef>

namespace quire {

/// How many of a pool's threads should compute while other programs want the same CPUs.
///
/// Threads that meet at barriers are as fast as the slowest of them: n threads of which one lacks
/// its CPU for a share f of the time do n (1 - f) of what they could, and n - 1 undisturbed ones
/// n - 1. So one is left out once f exceeds 1 / n, and taken back to see whether the CPU is free
/// again, later each time it was not. A pure function of what was observed; knows no clock.
class ThreadBudget {
 public:
  explicit ThreadBudget(std::size_t n_threads) : n_threads_(n_threads), n_active_(n_threads) {}

  /// Threads the next run should use, at least one.
  std::size_t n_active() const { return n_active_; }

  /// After each run of n_active() threads: how long it took, and for how much of that the thread
  /// that lost most wanted to compute and had no CPU. Seconds.
  void observe(double run_s, double lost_s);

 private:
  void start_window();

  std::size_t n_threads_;
  std::size_t n_active_;
  double window_s_ = 0;       // observed since the number last changed or a window was full
  double window_lost_s_ = 0;  // of those
  double quiet_s_ = 0;        // since one was left out or a trial failed
  double patience_s_ = 0;     // before one is taken back; 0: none was left out yet
  bool on_trial_ = false;     // the last one was taken back and has not proved itself
};

}  // namespace quire
