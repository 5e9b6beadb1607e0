#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
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

}  // namespace

Result<std::unique_ptr<ThreadPool>> ThreadPool::start(std::size_t n_threads) {
  try {
    return std::make_unique<ThreadPool>(n_threads);
  } catch (const std::system_error& error) {
    return fail(ErrorCode::kOutOfMemory, "the system refused to start {} threads: {}", n_threads,
                error.what());
  }
}

ThreadPool::ThreadPool(std::size_t n_threads) : spins_(n_threads <= available_cpus() ? kSpins : 0) {
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
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(const std::function<void(Worker&)>& body) {
  body_ = &body;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  Worker self(*this, 0);
  body(self);
  arrive_and_wait();
  body_ = nullptr;
}

void ThreadPool::worker_loop(std::size_t index) {
  Worker self(*this, index);
  std::uint32_t seen = 0;
  while (true) {
    wait_for_change(generation_, seen, spins_);
    ++seen;  // runs do not overlap, so no generation can be missed
    if (stop_.load(std::memory_order_relaxed)) return;
    (*body_)(self);
    arrive_and_wait();
  }
}

void ThreadPool::arrive_and_wait() {
  // Sense-reversing barrier: the last to arrive resets the count before it opens the phase.
  const std::uint32_t phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size()) {
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
