#include "engine/service/batch.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

/// Waiting sequences that one step looks at: their prompts are looked up in the prefix cache.
constexpr std::size_t kMaxConsidered = 8;

}  // namespace

Batch::Batch(Engine& engine, const ServiceOptions& options)
    : engine_(engine),
      options_(options),
      planner_(options.planner, engine.kv().config()),
      embeddings_(engine, options.planner.step_tokens) {}

Batch::~Batch() { cancel_all(); }

void Batch::add(std::unique_ptr<ActiveRequest> request) {
  request->arrival = next_arrival_;
  next_arrival_ += request->request.best_of;
  const SchedId id = next_id_++;
  members_[id] = {request.get(), nullptr};
  waiting_[{request->request.priority, request->arrival}] = id;
  requests_[request->id] = std::move(request);
}

void Batch::cancel(RequestId id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  ActiveRequest& request = *found->second;
  ++stats_.cancelled;
  for (const auto& branch : request.branches) branch->cancel();
  finish(request);
}

void Batch::expire() {
  const auto now = std::chrono::steady_clock::now();
  std::vector<ActiveRequest*> late;
  for (const auto& [id, request] : requests_)
    if (request->request.deadline && *request->request.deadline <= now)
      late.push_back(request.get());
  for (ActiveRequest* request : late)
    end_with(*request, {ErrorCode::kUnavailable, "the deadline of the request has passed"});
}

void Batch::cancel_all() {
  std::vector<RequestId> ids;
  for (const auto& [id, request] : requests_) ids.push_back(id);
  for (const RequestId id : ids) cancel(id);
  embeddings_.cancel_all();
}

ServiceStats Batch::stats() const {
  ServiceStats out = stats_;
  out.kv = engine_.kv().stats();
  out.running = running_.size();
  const auto preempted = std::ranges::count_if(
      waiting_, [&](const auto& entry) { return members_.at(entry.second).branch != nullptr; });
  out.waiting = queued_ + static_cast<std::size_t>(preempted);
  return out;
}

// ---- what the planner sees

bool Batch::pages_are_tight() const {
  // More than any step takes: everybody's next page and its copy, and the longest chunk.
  const auto& kv = engine_.kv().config();
  const std::size_t page_size = kv.layers.front().layout.page_size;
  const std::size_t blocks =
      2 * running_.size() + pages_for(planner_.options().step_tokens, page_size) + 1;
  return !planner_.options().chunked_prefill ||
         engine_.kv().stats().pages_available < blocks * kv.layers.size();
}

std::vector<SchedSequence> Batch::running_view() const {
  // Who has which pages is only asked when somebody may have to give some up.
  const bool tight = pages_are_tight();
  std::vector<SchedSequence> view;
  view.reserve(running_.size());
  for (const auto& [order, id] : running_) {
    const Branch& branch = *members_.at(id).branch;
    SchedSequence& sequence = view.emplace_back();
    sequence.id = id;
    std::tie(sequence.priority, sequence.arrival) = order;
    sequence.length = branch.length;
    sequence.known = branch.tokens().size();
    sequence.max_length = branch.max_length();
    if (tight) {
      sequence.own_pages = engine_.kv().own_pages(*branch.sequence);
      sequence.shares_tail = engine_.kv().shares_tail(*branch.sequence);
    }
  }
  return view;
}

std::size_t Batch::running_of(const std::string& tenant) const {
  return static_cast<std::size_t>(std::ranges::count_if(running_, [&](const auto& entry) {
    return members_.at(entry.second).request->request.tenant == tenant;
  }));
}

std::vector<SchedSequence> Batch::waiting_view() const {
  std::vector<SchedSequence> view;
  if (running_.size() >= planner_.options().max_running) return view;
  if (embeddings_.starved()) return view;  // or those who come would have its pages for ever
  std::unordered_map<std::string_view, std::size_t> of_tenant;
  for (const auto& [order, id] : waiting_) {
    if (view.size() == kMaxConsidered) break;
    const auto& [request, branch] = members_.at(id);
    const ServiceRequest& asked = request->request;
    const std::size_t n_branches = branch == nullptr || !request->prompt_done ? asked.best_of : 1;
    if (options_.max_per_tenant > 0) {
      auto [entry, is_new] = of_tenant.try_emplace(asked.tenant);
      if (is_new) entry->second = running_of(asked.tenant);
      // One that asks for more than the limit runs alone; nobody of its tenant gets past it.
      if (entry->second > 0 && entry->second + n_branches > options_.max_per_tenant) {
        entry->second = options_.max_per_tenant;
        continue;
      }
      entry->second += n_branches;
    }
    const auto tokens =
        branch == nullptr ? std::span<const TokenId>(asked.prompt) : branch->tokens();
    SchedSequence& sequence = view.emplace_back();
    sequence.id = id;
    std::tie(sequence.priority, sequence.arrival) = order;
    sequence.known = tokens.size();
    sequence.max_length = branch != nullptr       ? branch->max_length()
                          : asked.max_tokens == 0 ? engine_.options().context
                                                  : std::min(engine_.options().context,
                                                             tokens.size() + asked.max_tokens);
    sequence.n_branches = n_branches;
    if (options_.prefix_cache && (branch == nullptr || branch->may_adopt)) {
      const auto match =
          engine_.kv().match_prefix(asked.cache_namespace, tokens, tokens.size() - 1);
      sequence.length = match.n_tokens;
      sequence.own_pages = match.reclaimable_pages;
      sequence.shares_tail = true;  // its last page, if the prefix ends in one
    }
  }
  return view;
}

// ---- applying a plan

void Batch::step() {
  if (!requests_.empty()) step_requests();
  // Where nothing runs no page will come free: an embedding that does not fit now never will.
  if (!embeddings_.empty()) embeddings_.step(/*alone=*/running_.empty());
}

void Batch::step_requests() {
  const Stopwatch watch;
  const auto running = running_view();
  const auto waiting = waiting_view();
  const KvStats kv = engine_.kv().stats();
  const StepPlan plan = planner_.plan({.running = running,
                                       .waiting = waiting,
                                       .pages_available = kv.pages_available,
                                       .pages_total = kv.pages_total});
  for (const SchedId id : plan.preempt) preempt(id);
  for (const SchedId id : plan.admit) admit(id);
  stats_.plan_s += watch.seconds();
  if (!plan.items.empty())
    run(plan.items);
  else if (plan.preempt.empty())  // else there are more pages now
    go_on_when_stuck();
}

void Batch::stop_running(Branch& branch) {
  if (!branch.sequence) return;
  engine_.release(*branch.sequence);
  branch.sequence.reset();
  branch.length = 0;
}

void Batch::preempt(SchedId id) {
  const auto& [request, branch] = members_.at(id);
  const Order order{request->request.priority, branch->arrival};
  stop_running(*branch);
  running_.erase(order);
  waiting_[order] = id;
  ++stats_.preemptions;
}

void Batch::admit(SchedId id) {
  auto& [request, branch] = members_.at(id);
  const ServiceRequest& asked = request->request;
  const bool first_time = branch == nullptr;
  if (first_time) {
    auto created = Branch::create(asked, 0, engine_);
    QUIRE_CHECK(created.has_value());  // submit() has tried
    branch = request->branches.emplace_back(std::move(*created)).get();
    branch->id = id;
    branch->arrival = request->arrival;
    request->usage.queue_s = request->since_submit.seconds();
    --queued_;
  }
  const auto tokens = branch->tokens();
  if (options_.prefix_cache) {
    branch->sequence = engine_.add_sequence(asked.cache_namespace);
    if (branch->may_adopt)
      branch->length = engine_.adopt_prefix(*branch->sequence, tokens, tokens.size() - 1);
  } else {
    branch->sequence = engine_.add_sequence();
  }
  if (first_time) {
    request->usage.prompt_tokens = tokens.size();
    request->usage.cached_tokens = branch->length;
    stats_.prompt_tokens += tokens.size();
    stats_.cached_tokens += branch->length;
  }
  const Order order{asked.priority, branch->arrival};
  waiting_.erase(order);
  running_[order] = id;
}

/// Nothing can go on although something is there. A single sequence can need more pages than were
/// reckoned with while it shares some with the cache, so the first in order is computed anew
/// without them; if even that does not help, it never will.
void Batch::go_on_when_stuck() {
  if (running_.empty() && waiting_.empty()) return;
  if (embeddings_.holds_pages()) return;  // they come free: it ends, or fails and begins again
  if (running_.empty() && !embeddings_.empty()) return;  // whose turn it is before those who wait
  const SchedId id = running_.empty() ? waiting_.begin()->second : running_.begin()->second;
  const Member member = members_.at(id);
  if (member.branch != nullptr && member.branch->sequence && member.branch->may_adopt) {
    member.branch->may_adopt = false;
    preempt(id);
    return;
  }
  const KvStats kv = engine_.kv().stats();
  end_with(*member.request, {ErrorCode::kOutOfMemory,
                             fmt::format("the request does not fit into the {} of {} KV pages that "
                                         "are neither pinned nor in use",
                                         kv.pages_available, kv.pages_total)});
}

}  // namespace quire
