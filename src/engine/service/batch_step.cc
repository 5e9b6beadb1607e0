// The forward pass of a step, and what becomes of its logits.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/service/batch.h"

namespace quire {

void Batch::run(std::span<const PlannedTokens> items) {
  std::vector<StepItem> step;
  step.reserve(items.size());
  for (const auto& [id, n_tokens] : items) {
    const Branch& branch = *members_.at(id).branch;
    const bool last = branch.length + n_tokens == branch.tokens().size();
    step.push_back({.sequence = *branch.sequence,
                    .tokens = branch.tokens().subspan(branch.length, n_tokens),
                    .logits = last ? LogitsWanted::kLast : LogitsWanted::kNone});
  }
  const Stopwatch watch;
  const auto logits = engine_.step(step);
  stats_.forward_s += watch.seconds();
  ++stats_.steps;
  if (!logits) {
    // One of them cannot be computed, or there are fewer pages than the plan took for granted.
    if (items.size() > 1) return run_alone(items);
    const Member member = members_.at(items.front().id);
    if (logits.error().code != ErrorCode::kOutOfMemory || !member.branch->may_adopt)
      return end_with(*member.request, logits.error());
    // What it shares can need copies. Once more without sharing, when it is its turn.
    member.branch->may_adopt = false;
    return preempt(items.front().id);
  }
  std::size_t row = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool has_logits = step[i].logits == LogitsWanted::kLast;
    const auto member = members_.find(items[i].id);
    // Gone if another branch of its request failed in this very step.
    if (member != members_.end())
      computed(member->second, items[i].n_tokens,
               has_logits ? logits->row(row) : std::span<const float>());
    row += has_logits;
  }
}

void Batch::run_alone(std::span<const PlannedTokens> items) {
  for (const PlannedTokens& item : items)
    if (members_.contains(item.id)) run({&item, 1});
}

void Batch::computed(Member member, std::size_t n_tokens, std::span<const float> logits) {
  auto& [request, branch] = member;
  branch->length += n_tokens;
  if (logits.empty()) return;
  if (!request->prompt_done) {
    request->prompt_done = true;
    split(*request, *branch, logits);
  } else {
    branch->advance(logits);
    progressed(*request, *branch);
  }
}

/// The prompt is there: every choice goes its own way from here, over the same pages.
void Batch::split(ActiveRequest& request, Branch& root, std::span<const float> logits) {
  const RequestId id = request.id;
  for (std::size_t choice = 1; choice < request.request.best_of; ++choice) {
    auto created = Branch::create(request.request, choice, engine_);
    QUIRE_CHECK(created.has_value());
    Branch& branch = *request.branches.emplace_back(std::move(*created));
    auto forked = engine_.fork(*root.sequence);
    QUIRE_CHECK(forked.has_value());
    branch.id = next_id_++;
    branch.arrival = request.arrival + choice;
    branch.sequence = *forked;
    branch.length = root.length;
    members_[branch.id] = {&request, &branch};
    running_[{request.request.priority, branch.arrival}] = branch.id;
  }
  request.usage.first_token_s = request.since_submit.seconds();
  for (std::size_t i = 0; i < request.request.best_of; ++i) {
    Branch& branch = *request.branches[i];
    branch.advance(logits);
    progressed(request, branch);
    if (!requests_.contains(id)) return;  // it failed or was the last to end
  }
}

/// A branch has one token more, or has ended.
void Batch::progressed(ActiveRequest& request, Branch& branch) {
  ++stats_.generated_tokens;
  const bool given_out = request.request.best_of == request.request.n;
  if (branch.error()) return end_with(request, *branch.error());
  if (given_out) request.sink->on_delta(branch.take_delta());
  if (!branch.ended()) return;
  if (given_out) request.sink->on_finish(branch.choice(), branch.finish_reason());
  stop_running(branch);
  running_.erase({request.request.priority, branch.arrival});
  members_.erase(branch.id);
  const bool all_ended =
      std::ranges::all_of(request.branches, [](const auto& each) { return each->ended(); });
  if (!all_ended) return;
  ++stats_.finished;
  finish(request);
}

/// Of best_of answers the n that the model finds likeliest by the token.
void Batch::give_out_best(ActiveRequest& request) {
  std::vector<Branch*> best;
  for (const auto& branch : request.branches) best.push_back(branch.get());
  std::ranges::stable_sort(
      best, [](const auto* a, const auto* b) { return a->mean_logprob() > b->mean_logprob(); });
  for (std::size_t i = 0; i < std::min(request.request.n, best.size()); ++i) {
    ChoiceDelta delta = best[i]->take_delta();
    delta.choice = i;
    request.sink->on_delta(delta);
    request.sink->on_finish(i, best[i]->finish_reason());
  }
}

/// Every branch has ended. Those that were cancelled have not been heard of yet.
void Batch::finish(ActiveRequest& request) {
  if (request.request.best_of > request.request.n) {
    give_out_best(request);
  } else {
    for (const auto& branch : request.branches)
      if (branch->finish_reason() == FinishReason::kCancelled) {
        request.sink->on_delta(branch->take_delta());
        request.sink->on_finish(branch->choice(), FinishReason::kCancelled);
      }
  }
  for (const auto& branch : request.branches)
    request.usage.completion_tokens += branch->n_generated();
  request.usage.total_s = request.since_submit.seconds();
  request.sink->on_done(request.usage);
  forget(request);
}

void Batch::end_with(ActiveRequest& request, const Error& error) {
  ++stats_.failed;
  request.sink->on_error(error);
  forget(request);
}

void Batch::forget(ActiveRequest& request) {
  const std::int32_t priority = request.request.priority;
  if (request.branches.empty()) {  // it never ran
    --queued_;
    const auto entry = waiting_.find({priority, request.arrival});
    members_.erase(entry->second);
    waiting_.erase(entry);
  }
  for (const auto& branch : request.branches) {
    stop_running(*branch);
    running_.erase({priority, branch->arrival});
    waiting_.erase({priority, branch->arrival});
    members_.erase(branch->id);
  }
  requests_.erase(request.id);
}

}  // namespace quire
