#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <system_error>

#include "base/check.h"

namespace quire {
namespace {

// About 30 µs of spinning: longer than the gap between two stages of a forward pass, far shorter
// than anything a person or a power meter notices. With more threads than CPUs, spinning would
// only keep the thread waited for from running.
constexpr int kSpins = 2000;

void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// While it lives this thread, and every thread it starts for good, takes no signals but those of
/// its own doing: an interrupt is for the thread that waits for it.
class NoSignals {
 public:
  NoSignals() {
    sigset_t signals;
    sigfillset(&signals);
    for (const int own : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGPROF, SIGSEGV, SIGSYS, SIGTRAP})
      sigdelset(&signals, own);
    pthread_sigmask(SIG_SETMASK, &signals, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

/// Returns once `value` is no longer `old`.
void wait_for_change(const std::atomic<std::uint32_t>& value, std::uint32_t old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    cpu_relax();
  }
  value.wait(old, std::memory_order_acquire);
}

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Of this thread, since the object was made.
class TimeWithoutCpu {
 public:
  double seconds() const { return off_cpu() - start_; }

 private:
  static double off_cpu() {
    return seconds_of(CLOCK_MONOTONIC) - seconds_of(CLOCK_THREAD_CPUTIME_ID);
  }
  double start_ = off_cpu();
};

}  // namespace

Result<std::unique_ptr<ThreadPool>> ThreadPool::start(std::size_t n_threads,
                                                      Neighbours neighbours) {
  try {
    return std::make_unique<ThreadPool>(n_threads, neighbours);
  } catch (const std::system_error& error) {
    return fail(ErrorCode::kOutOfMemory, "the system refused to start {} threads: {}", n_threads,
                error.what());
  }
}

ThreadPool::ThreadPool(std::size_t n_threads, Neighbours neighbours)
    : spins_(n_threads <= available_cpus() ? kSpins : 0),
      neighbours_(n_threads > 1 ? neighbours : Neighbours::kIgnore),
      budget_(n_threads),
      n_active_(n_threads),
      n_staying_(n_threads),
      seats_(n_threads) {
  QUIRE_CHECK(n_threads >= 1);
  const NoSignals none;
  threads_.reserve(n_threads - 1);
  try {
    for (std::size_t i = 1; i < n_threads; ++i)
      threads_.emplace_back([this, i] { worker_loop(i); });
  } catch (...) {
    stop_and_join();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop_and_join(); }

void ThreadPool::stop_and_join() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (Seat& seat : seats_) {
    seat.called.store(1, std::memory_order_release);
    seat.called.notify_one();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(const std::function<void(Worker&)>& body) {
  const double begin_s = neighbours_ == Neighbours::kIgnore ? 0 : seconds_of(CLOCK_MONOTONIC);
  body_ = &body;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  take_part(0);
  body_ = nullptr;
  if (neighbours_ == Neighbours::kYieldTo) follow_budget(seconds_of(CLOCK_MONOTONIC) - begin_s);
}

void ThreadPool::take_part(std::size_t index) {
  Worker self(*this, index);
  if (neighbours_ == Neighbours::kIgnore) {
    (*body_)(self);
  } else {
    // A thread that waits for another one that has no CPU parks: it has none either, and what the
    // others lost shows in each.
    const TimeWithoutCpu lost;
    (*body_)(self);
    seats_[index].lost_s = lost.seconds();
  }
  arrive_and_wait();
}

/// Between runs. Whoever is no longer wanted hears of it in the next run, its last; whoever is
/// wanted again is waited for, so that no thread ever has to guess which runs are its own.
void ThreadPool::follow_budget(double run_s) {
  double lost_s = 0;
  for (std::size_t i = 0; i < n_active_; ++i) lost_s = std::max(lost_s, seats_[i].lost_s);
  budget_.observe(run_s, lost_s);
  n_active_ = n_staying_;
  n_staying_ = budget_.n_active();
  for (; n_active_ < n_staying_; ++n_active_) call_back(seats_[n_active_]);
}

void ThreadPool::call_back(Seat& seat) {
  seat.called.store(1, std::memory_order_release);
  seat.called.notify_one();
  while (seat.called.load(std::memory_order_acquire) == 1)
    seat.called.wait(1, std::memory_order_acquire);
}

/// Returns the generation before that of its next run.
std::uint32_t ThreadPool::stay_away(Seat& seat) {
  while (seat.called.load(std::memory_order_acquire) == 0)
    seat.called.wait(0, std::memory_order_acquire);
  const std::uint32_t seen = generation_.load(std::memory_order_acquire);
  seat.called.store(0, std::memory_order_release);
  seat.called.notify_one();
  return seen;
}

void ThreadPool::worker_loop(std::size_t index) {
  std::uint32_t seen = 0;
  while (true) {
    wait_for_change(generation_, seen, spins_);
    ++seen;  // runs do not overlap, so no generation can be missed
    if (stop_.load(std::memory_order_relaxed)) return;
    const bool is_last = index >= n_staying_;
    take_part(index);
    if (!is_last) continue;
    seen = stay_away(seats_[index]);
    if (stop_.load(std::memory_order_relaxed)) return;
  }
}

void ThreadPool::arrive_and_wait() {
  // Sense-reversing barrier: the last to arrive resets the count before it opens the phase.
  const std::uint32_t phase = phase_.load(std::memory_order_acquire);
  const std::size_t n_active = n_active_;  // before anybody can be past this barrier and change it
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_active) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.fetch_add(1, std::memory_order_release);
    phase_.notify_all();
    return;
  }
  wait_for_change(phase_, phase, spins_);
}

std::size_t available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return static_cast<std::size_t>(std::max(1, CPU_COUNT(&set)));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace quire
