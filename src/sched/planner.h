#pragma once
// What the next step computes: a pure function of what is running, what waits and how many pages
// are left. It never touches bytes, so the simulator can share it and tests need no model.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/kv_arithmetic.h"

namespace quire {

enum class BatchPolicy : std::uint8_t {
  kContinuous,  // every step admits and retires (Orca, Yu et al. 2022)
  kStatic,      // a batch is admitted when the one before it has ended; for comparison
};

enum class AllocationPolicy : std::uint8_t {
  kPaged,    // pages as tokens come (PagedAttention, Kwon et al. 2023)
  kReserve,  // as many as the sequence could ever need, when it is admitted; for comparison
};

struct PlannerOptions {
  BatchPolicy batch = BatchPolicy::kContinuous;
  AllocationPolicy allocation = AllocationPolicy::kPaged;
  std::size_t max_running = 64;   // sequences at once
  std::size_t step_tokens = 256;  // of one step; tokens of decoding come first
  bool chunked_prefill = true;    // false: a prompt is computed in one step, however long
};

using SchedId = std::uint64_t;

/// A sequence as the planner sees it. Order among sequences is (priority, arrival): smaller first.
struct SchedSequence {
  SchedId id = 0;
  std::int32_t priority = 0;
  std::uint64_t arrival =
      0;                   // unique; kept when it is preempted, so that it does not lose its turn
  std::size_t length = 0;  // tokens whose K and V exist
  std::size_t known = 0;   // tokens that exist: known - length > 0 are to be computed
  std::size_t max_length = 0;  // it can never have more tokens than these
  /// Of one that runs: pages nobody else refers to, which come free (or can be reclaimed) without
  /// it. Of one that waits: pages of its cached prefix that would no longer be reclaimable.
  std::size_t own_pages = 0;
  bool shares_tail = false;    // the next token copies the last page of every layer
  std::size_t n_branches = 1;  // of one that waits: sequences it splits into behind its prompt
};

struct PlannerView {
  std::span<const SchedSequence> running;  // any order
  std::span<const SchedSequence> waiting;  // any order; length: what the prefix cache would give
  std::size_t pages_available = 0;         // free, or cached and reclaimable
  std::size_t pages_total = 0;
};

struct PlannedTokens {
  SchedId id = 0;
  std::size_t n_tokens = 0;  // the first of those to be computed
  friend bool operator==(const PlannedTokens&, const PlannedTokens&) = default;
};

/// In this order: preempt, admit, then one forward pass over `items`.
struct StepPlan {
  std::vector<SchedId> preempt;  // their pages are dropped; they wait again
  std::vector<SchedId> admit;
  std::vector<PlannedTokens> items;  // decoding first; each sequence once at most
};

/// The policy in one place. Nobody is passed over: what comes first in order and does not fit makes
/// the others wait. Whoever needs a page that is not there takes it from the last in order, so that
/// the first one always goes on and everything ends; the last ones lose their pages and wait again.
class Planner {
 public:
  /// `kv` says how many pages tokens take.
  Planner(PlannerOptions options, KvConfig kv);

  /// Empty only if nothing runs and nothing waits, or if what waits could never fit.
  StepPlan plan(const PlannerView& view) const;

  /// Pages of a sequence of so many tokens that splits into `n_branches` behind `n_shared` of them:
  /// more than the pool has, and it can never run.
  std::uint64_t pages_at_most(std::size_t length, std::size_t n_shared,
                              std::size_t n_branches) const;

  const PlannerOptions& options() const { return options_; }

 private:
  PlannerOptions options_;
  KvConfig kv_;
};

}  // namespace quire
