#pragma once
// Many requests at once over one engine: what the server talks to.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/session.h"
#include "sample/sampler.h"
#include "sched/planner.h"
#include "text/grammar.h"

namespace quire {

using RequestId = StrongId<struct RequestTag, std::uint64_t>;

/// Checked by whoever makes it: the step thread takes it as it is.
struct ServiceRequest {
  std::vector<TokenId> prompt;  // BOS included; not empty
  std::size_t max_tokens = 0;   // per choice; 0: until end of generation or the context is full
  SamplerParams sampling;       // choice i draws with seed + i
  std::vector<std::string> stop;
  bool ignore_eos = false;
  std::shared_ptr<const Grammar> grammar;  // what answers have to look like; null: anything
  std::size_t n = 1;                       // choices
  std::size_t best_of = 1;  // >= n: so many are generated, the n likeliest are given out at the end
  std::int32_t priority = 0;  // smaller first
  std::string tenant;         // whose limits count
  /// Who may share cached prefixes with whom. Never a client's own words alone: the server makes it
  /// from the key that was checked, and the client's salt.
  std::string cache_namespace;
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

/// Part of an answer: what one step added to one choice.
struct ChoiceDelta {
  std::size_t choice = 0;
  std::string_view text;  // valid UTF-8, whole characters, stop strings removed; may be empty
  std::span<const SampledToken> tokens;
};

struct ServiceUsage {
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;      // of the prompt, found in the prefix cache
  std::size_t completion_tokens = 0;  // of all choices, those of best_of not given out included
  double queue_s = 0;                 // from submit() until the first of its tokens was computed
  double first_token_s = 0;           // from submit() to the first token of any choice; 0: none
  double total_s = 0;
};

/// Where an answer goes. Called on the step thread, one call at a time: take what is given and
/// return; whoever waits here makes everybody wait. Exactly one of on_done and on_error is called,
/// last, also for a request that is cancelled.
class ServiceSink {
 public:
  virtual ~ServiceSink() = default;
  virtual void on_delta(const ChoiceDelta& delta) = 0;
  virtual void on_finish(std::size_t choice, FinishReason reason) = 0;
  virtual void on_done(const ServiceUsage& usage) = 0;
  virtual void on_error(const Error& error) = 0;
};

enum class Pooling : std::uint8_t { kMean, kLast };

/// A text to be embedded: what the LM head would read of its tokens, pooled, of length 1.
struct EmbeddingRequest {
  std::vector<TokenId> tokens;  // not empty, no more than the context
  Pooling pooling = Pooling::kMean;
  std::shared_ptr<const std::atomic<bool>> cancelled;  // null: never
  /// Called once, on the step thread, with [hidden_dim] floats or why there are none.
  std::function<void(Result<std::vector<float>>)> done;
};

struct ServiceOptions {
  PlannerOptions planner{};
  std::size_t max_waiting = 1024;  // requests; more are refused at once
  std::size_t max_per_tenant = 0;  // running sequences of one tenant; 0: no limit
  bool prefix_cache = true;
};

/// One moment of the service, for metrics, the dashboard and tests.
struct ServiceStats {
  KvStats kv;
  std::size_t running = 0;  // sequences
  std::size_t waiting = 0;  // requests
  std::uint64_t steps = 0;
  std::uint64_t prompt_tokens = 0;  // computed or found
  std::uint64_t cached_tokens = 0;  // found in the prefix cache
  std::uint64_t generated_tokens = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t finished = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t failed = 0;
  double plan_s = 0;  // time spent planning, and in forward passes
  double forward_s = 0;
};

/// Runs the steps on a thread of its own. All functions may be called from any thread.
class Service {
 public:
  /// `engine` must outlive it, and nobody else may use it meanwhile.
  static std::unique_ptr<Service> start(Engine& engine, const ServiceOptions& options);
  /// Cancels what is left and waits for the step to end.
  virtual ~Service() = default;

  /// Refused: what can never fit (kOutOfMemory, with both numbers), a full queue (kBusy), and
  /// everything once drain() was called (kUnavailable).
  virtual Result<RequestId> submit(ServiceRequest request, std::shared_ptr<ServiceSink> sink) = 0;
  /// Its choices finish with kCancelled. Unknown or ended requests are ignored.
  virtual void cancel(RequestId request) = 0;

  /// Refused as submit() does.
  virtual Status embed(EmbeddingRequest request) = 0;

  virtual ServiceStats stats() const = 0;
  /// Drops every cached page that no sequence uses; the number of pages.
  virtual std::size_t flush_cache() = 0;
  /// Refuses new requests from now on.
  virtual void drain() = 0;
};

}  // namespace quire
