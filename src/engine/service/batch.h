#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/stopwatch.h"
#include "engine/service/branch.h"
#include "engine/service/embedding_queue.h"
#include "engine/service/service.h"
#include "sched/planner.h"

namespace quire {

/// A request from submit() to its last event.
struct ActiveRequest {
  RequestId id;
  ServiceRequest request;
  std::shared_ptr<ServiceSink> sink;
  Stopwatch since_submit{};
  ServiceUsage usage{};
  /// None before it is first admitted, one until its prompt is computed, then best_of.
  std::vector<std::unique_ptr<Branch>> branches{};
  std::uint64_t arrival = 0;  // its branches have arrival, arrival + 1, ...
  bool prompt_done = false;
};

/// What the step thread owns: all requests, and the steps that carry them on. A step is a
/// transaction: plan, reserve, run, commit; only then does anybody hear of it.
class Batch {
 public:
  Batch(Engine& engine, const ServiceOptions& options);
  ~Batch();

  void add(std::unique_ptr<ActiveRequest> request);
  void add(EmbeddingRequest request) { embeddings_.add(std::move(request)); }
  /// Ends a request as cancelled; ignores one that is not there.
  void cancel(RequestId id);
  /// Ends requests whose deadline has passed.
  void expire();
  /// Ends every request as cancelled.
  void cancel_all();

  bool idle() const { return requests_.empty() && embeddings_.empty(); }
  /// One step, if there is anything to do.
  void step();

  ServiceStats stats() const;

  /// Requests that never ran yet, those included that are still on their way to add(): whoever
  /// brings one adds it here. Of all threads.
  std::atomic<std::size_t>& queued() { return queued_; }

 private:
  /// A sequence as the planner knows it: a branch, or a request that has none yet.
  struct Member {
    ActiveRequest* request = nullptr;
    Branch* branch = nullptr;
  };
  using Order = std::pair<std::int32_t, std::uint64_t>;  // priority, arrival

  void step_requests();
  std::vector<SchedSequence> running_view() const;
  std::vector<SchedSequence> waiting_view() const;
  bool pages_are_tight() const;
  std::size_t running_of(const std::string& tenant) const;

  void preempt(SchedId id);
  void admit(SchedId id);
  void go_on_when_stuck();
  void run(std::span<const PlannedTokens> items);
  void run_alone(std::span<const PlannedTokens> items);
  void computed(Member member, std::size_t n_tokens, std::span<const float> logits);
  void split(ActiveRequest& request, Branch& root, std::span<const float> logits);
  void progressed(ActiveRequest& request, Branch& branch);
  void finish(ActiveRequest& request);
  void give_out_best(ActiveRequest& request);
  void end_with(ActiveRequest& request, const Error& error);
  void forget(ActiveRequest& request);
  void stop_running(Branch& branch);

  Engine& engine_;
  ServiceOptions options_;
  Planner planner_;
  EmbeddingQueue embeddings_;
  std::unordered_map<RequestId, std::unique_ptr<ActiveRequest>> requests_;
  std::unordered_map<SchedId, Member> members_;
  std::map<Order, SchedId> waiting_;
  std::map<Order, SchedId> running_;
  SchedId next_id_ = 0;
  std::uint64_t next_arrival_ = 0;
  ServiceStats stats_;
  std::atomic<std::size_t> queued_{0};
};

}  // namespace quire
