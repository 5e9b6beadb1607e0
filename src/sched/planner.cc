#include "sched/planner.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

bool comes_first(const SchedSequence& a, const SchedSequence& b) {
  return std::tie(a.priority, a.arrival) < std::tie(b.priority, b.arrival);
}

std::vector<const SchedSequence*> in_order(std::span<const SchedSequence> sequences) {
  std::vector<const SchedSequence*> out;
  out.reserve(sequences.size());
  for (const SchedSequence& sequence : sequences) out.push_back(&sequence);
  std::ranges::sort(out, [](const auto* a, const auto* b) { return comes_first(*a, *b); });
  return out;
}

bool decodes(const SchedSequence& sequence) { return sequence.known == sequence.length + 1; }

/// One step in the making.
class StepInProgress {
 public:
  StepInProgress(const PlannerOptions& options, const KvConfig& kv, const PlannerView& view)
      : options_(options),
        kv_(kv),
        page_size_(kv.layers.front().layout.page_size),
        view_(view),
        running_(in_order(view.running)),
        available_(view.pages_available) {
    const auto n_decodes = static_cast<std::size_t>(
        std::ranges::count_if(view.running, [](const auto& s) { return decodes(s); }));
    // Somebody always gets on with a prompt, however many decode.
    prefill_left_ = std::max<std::size_t>(options.step_tokens, n_decodes + 1) - n_decodes;
  }

  StepPlan finish() {
    // The end of running_ shrinks as its sequences are preempted.
    for (std::size_t i = 0; i < running_.size(); ++i) plan_running(i);
    if (plan_.preempt.empty()) admit();
    std::ranges::stable_partition(plan_.items, [](const auto& item) { return item.n_tokens == 1; });
    return std::move(plan_);
  }

 private:
  std::size_t n_layers() const { return kv_.layers.size(); }

  /// Pages that the next n tokens of a running sequence take.
  std::size_t growth(const SchedSequence& sequence, std::size_t n) const {
    const std::size_t pages = pages_for(sequence.length + n, page_size_) -
                              pages_for(sequence.length, page_size_) + copied_pages(sequence);
    return pages * n_layers();
  }

  std::size_t copied_pages(const SchedSequence& sequence) const {
    return sequence.shares_tail && sequence.length % page_size_ != 0 ? 1 : 0;
  }

  /// The most of n tokens that the available pages hold.
  std::size_t tokens_that_fit(const SchedSequence& sequence, std::size_t n) const {
    const std::size_t copied = copied_pages(sequence);
    const std::size_t pages = available_ / n_layers();
    if (pages < copied) return 0;
    const std::size_t end = (pages_for(sequence.length, page_size_) + pages - copied) * page_size_;
    return std::min(n, end - sequence.length);
  }

  std::size_t wanted_tokens(const SchedSequence& sequence) const {
    if (decodes(sequence)) return 1;
    const std::size_t missing = sequence.known - sequence.length;
    if (prefill_left_ == 0) return 0;
    return options_.chunked_prefill ? std::min(missing, prefill_left_) : missing;
  }

  void take(const SchedSequence& sequence, std::size_t n) {
    plan_.items.push_back({sequence.id, n});
    const std::size_t pages = growth(sequence, n);
    available_ -= std::min(available_, pages);
    if (!decodes(sequence)) prefill_left_ -= std::min(prefill_left_, n);
  }

  void plan_running(std::size_t i) {
    const SchedSequence& sequence = *running_[i];
    const std::size_t wanted = wanted_tokens(sequence);
    if (wanted == 0) return;
    // A prompt without chunks is all or nothing; otherwise any progress will do.
    const std::size_t least = options_.chunked_prefill ? 1 : wanted;
    while (tokens_that_fit(sequence, wanted) < least && running_.size() > i + 1) {
      available_ += running_.back()->own_pages;
      plan_.preempt.push_back(running_.back()->id);
      running_.pop_back();
    }
    const std::size_t n = tokens_that_fit(sequence, wanted);
    if (n >= least) take(sequence, n);
  }

  /// Pages that a waiting sequence takes until its known tokens are computed, and one more each
  /// for the tokens that follow in its branches.
  std::size_t admission_pages(const SchedSequence& sequence) const {
    const std::size_t end = options_.allocation == AllocationPolicy::kReserve ? sequence.max_length
                                                                              : sequence.known + 1;
    std::size_t pages = 0;
    for (const KvLayerSpec& layer : kv_.layers) {
      const std::size_t whole = pages_for(end, page_size_) - sequence.length / page_size_;
      // A window keeps no more than it sees and what one step adds.
      const std::size_t seen = pages_for(layer.window + options_.step_tokens, page_size_) + 1;
      pages += layer.window == 0 ? whole : std::min(whole, seen);
    }
    return pages + (sequence.n_branches - 1) * n_layers();
  }

  /// What may be promised to others: pages there are, or that nobody has reserved.
  std::size_t admissible_pages() const {
    if (options_.allocation == AllocationPolicy::kPaged) {
      // Each that runs can fill the page it is at and begin another before it gets tight.
      const std::size_t kept = running_.size() * n_layers();
      return available_ - std::min(available_, kept);
    }
    std::size_t reserved = 0;
    for (const SchedSequence* sequence : running_)
      reserved += pages_for(sequence->max_length, page_size_) * n_layers();
    return view_.pages_total - std::min(view_.pages_total, reserved);
  }

  void admit() {
    if (options_.batch == BatchPolicy::kStatic && !running_.empty()) return;
    std::size_t n_running = running_.size();
    std::size_t admissible = admissible_pages();
    for (const SchedSequence* sequence : in_order(view_.waiting)) {
      const bool alone = n_running == 0;
      const std::size_t wanted = wanted_tokens(*sequence);
      if (wanted == 0) return;
      // What it finds in the cache is available no longer.
      const std::size_t pages = admission_pages(*sequence) + sequence->own_pages;
      // Alone it goes on as far as it gets: whether it can ever fit was asked before.
      if (!alone && (n_running + sequence->n_branches > options_.max_running || pages > admissible))
        return;
      available_ -= std::min(available_, sequence->own_pages);
      const std::size_t n = tokens_that_fit(*sequence, wanted);
      if (n == 0 || (!options_.chunked_prefill && n < wanted)) return;
      plan_.admit.push_back(sequence->id);
      take(*sequence, n);
      admissible -= std::min(admissible, pages);
      n_running += sequence->n_branches;
    }
  }

  const PlannerOptions& options_;
  const KvConfig& kv_;
  std::size_t page_size_;
  const PlannerView& view_;
  std::vector<const SchedSequence*> running_;
  std::size_t available_;
  std::size_t prefill_left_ = 0;
  StepPlan plan_;
};

}  // namespace

Planner::Planner(PlannerOptions options, KvConfig kv) : options_(options), kv_(std::move(kv)) {
  QUIRE_CHECK(!kv_.layers.empty());
  QUIRE_CHECK(options_.max_running > 0 && options_.step_tokens > 0);
}

StepPlan Planner::plan(const PlannerView& view) const {
  return StepInProgress(options_, kv_, view).finish();
}

std::uint64_t Planner::pages_at_most(std::size_t length, std::size_t n_shared,
                                     std::size_t n_branches) const {
  const std::size_t page_size = kv_.layers.front().layout.page_size;
  std::uint64_t pages = 0;
  for (const KvLayerSpec& layer : kv_.layers) {
    const std::uint64_t whole = pages_for(length, page_size);
    const std::uint64_t shared = n_branches > 1 ? n_shared / page_size : 0;
    std::uint64_t most = shared + n_branches * (whole - shared);
    if (layer.window > 0) {
      const std::uint64_t seen = pages_for(layer.window + 1, page_size) + 1;
      most = std::min(most, n_branches * seen);
    }
    pages += most;
  }
  return pages;
}

}  // namespace quire
