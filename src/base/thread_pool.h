#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/thread_budget.h"

namespace quire {

/// One contiguous share of a range, in units the caller chose.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The `part`-th of `n_parts` nearly equal contiguous shares of [0, n).
constexpr Range split_range(std::size_t n, std::size_t part, std::size_t n_parts) {
  return {n * part / n_parts, n * (part + 1) / n_parts};
}

/// A persistent pool that runs one function on all its threads at once (SPMD). The caller is
/// worker 0; a forward pass enters the pool once and its stages meet at barriers, since waking
/// threads per operation would cost more than the operation. Waiting spins for some microseconds,
/// then parks, so that an idle engine uses no CPU.
class ThreadPool {
 public:
  enum class Neighbours {
    kIgnore,   // every run uses all threads
    kYieldTo,  // fewer while other programs take CPUs away, as ThreadBudget says
  };

  /// What a worker sees of the run it takes part in.
  class Worker {
   public:
    std::size_t index() const { return index_; }
    std::size_t count() const { return pool_.n_active_; }

    /// This worker's share of [0, n).
    Range share(std::size_t n) const { return split_range(n, index_, count()); }

    /// Waits until every worker of the run has arrived; what they wrote is visible afterwards.
    void barrier() { pool_.arrive_and_wait(); }

   private:
    friend class ThreadPool;
    Worker(ThreadPool& pool, std::size_t index) : pool_(pool), index_(index) {}
    ThreadPool& pool_;
    std::size_t index_;
  };

  /// The constructor, with the system's refusal as a result (kOutOfMemory).
  static Result<std::unique_ptr<ThreadPool>> start(std::size_t n_threads,
                                                   Neighbours neighbours = Neighbours::kIgnore);

  /// n_threads >= 1, counting the caller. Throws std::system_error if the system has no more
  /// threads to give; none is left behind.
  explicit ThreadPool(std::size_t n_threads, Neighbours neighbours = Neighbours::kIgnore);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t size() const { return threads_.size() + 1; }
  /// Workers of the next run: size(), or fewer for the sake of neighbours.
  std::size_t n_active() const { return n_active_; }

  /// Runs body(worker) once on each of n_active() threads and returns when all are done. Not
  /// reentrant; one caller at a time. The body must not throw and all workers must pass the same
  /// barriers.
  void run(const std::function<void(Worker&)>& body);

 private:
  /// Of one worker; its own cache line.
  struct alignas(64) Seat {
    std::atomic<std::uint32_t> called{0};  // 1: whoever stayed away is to come back
    double lost_s = 0;                     // of the last run, in which it had no CPU
  };

  void worker_loop(std::size_t index);
  void stop_and_join();
  void arrive_and_wait();
  void take_part(std::size_t index);
  void follow_budget(double run_s);
  void call_back(Seat& seat);
  std::uint32_t stay_away(Seat& seat);

  int spins_;  // before parking
  Neighbours neighbours_;
  ThreadBudget budget_;
  std::size_t n_active_;
  std::size_t n_staying_;  // behind the run under way
  std::vector<Seat> seats_;
  std::vector<std::thread> threads_;
  const std::function<void(Worker&)>* body_ = nullptr;
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<std::uint32_t> generation_{0};  // bumped to start a run
  alignas(64) std::atomic<std::uint32_t> arrived_{0};     // at the barrier in progress
  alignas(64) std::atomic<std::uint32_t> phase_{0};       // bumped when a barrier opens
};

/// Threads worth using for computation: the CPUs this process may run on.
std::size_t available_cpus();

}  // namespace quire
