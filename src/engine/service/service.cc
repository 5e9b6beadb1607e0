#include "engine/service/service.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "engine/service/batch.h"

namespace quire {
namespace {

// One request may bring thousands of texts to be embedded.
constexpr std::size_t kMaxTexts = 8192;

class ServiceImpl final : public Service {
 public:
  ServiceImpl(Engine& engine, const ServiceOptions& options)
      : engine_(engine),
        options_(options),
        planner_(options.planner, engine.kv().config()),
        pages_total_(engine.kv().stats().pages_total),
        batch_(engine, options) {
    stats_ = batch_.stats();
    thread_ = std::thread([this] { run(); });
  }

  ~ServiceImpl() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      draining_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Result<RequestId> submit(ServiceRequest request, std::shared_ptr<ServiceSink> sink) override {
    QUIRE_RETURN_IF_ERROR(check(request));
    const std::lock_guard lock(mutex_);
    if (draining_) return fail(draining());
    if (batch_.queued() >= options_.max_waiting)
      return fail(ErrorCode::kBusy, "{} requests are waiting already, as many as may",
                  options_.max_waiting);
    auto active = std::make_unique<ActiveRequest>();
    active->id = RequestId(next_id_++);
    active->request = std::move(request);
    active->sink = std::move(sink);
    const RequestId id = active->id;
    ++batch_.queued();
    commands_.push_back([active = std::make_shared<std::unique_ptr<ActiveRequest>>(
                             std::move(active))](Batch& batch) { batch.add(std::move(*active)); });
    changed_.notify_all();
    return id;
  }

  Status embed(EmbeddingRequest request) override {
    QUIRE_RETURN_IF_ERROR(check_tokens(request.tokens));
    if (request.tokens.size() > engine_.options().context)
      return fail(ErrorCode::kInvalidArgument, "the text has {} tokens, the context {}",
                  request.tokens.size(), engine_.options().context);
    QUIRE_RETURN_IF_ERROR(check_pages(request.tokens.size(), request.tokens.size(), 1));
    const std::lock_guard lock(mutex_);
    if (draining_) return fail(draining());
    if (n_embedding_ >= std::max(options_.max_waiting, kMaxTexts))
      return fail(ErrorCode::kBusy, "{} texts wait to be embedded already, as many as may",
                  n_embedding_.load());
    ++n_embedding_;
    request.done = [this, done = std::move(request.done)](Result<std::vector<float>> result) {
      --n_embedding_;
      done(std::move(result));
    };
    commands_.push_back([shared = std::make_shared<EmbeddingRequest>(std::move(request))](
                            Batch& batch) { batch.add(std::move(*shared)); });
    changed_.notify_all();
    return {};
  }

  void cancel(RequestId request) override {
    command([request](Batch& batch) { batch.cancel(request); });
  }

  std::size_t flush_cache() override {
    std::size_t n_pages = 0;
    bool done = false;
    std::unique_lock lock(mutex_);
    commands_.push_back([&](Batch& batch) {
      const std::size_t flushed = engine_.flush_cache();
      const std::lock_guard inner(mutex_);
      stats_ = batch.stats();
      n_pages = flushed;
      done = true;
      flushed_.notify_all();
    });
    changed_.notify_all();
    flushed_.wait(lock, [&] { return done || ended_; });
    return n_pages;
  }

  void drain() override {
    const std::lock_guard lock(mutex_);
    draining_ = true;
  }

  ServiceStats stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  using Command = std::function<void(Batch&)>;

  void command(Command what) {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(what));
    changed_.notify_all();
  }

  /// What will never work is refused before it waits.
  Status check(const ServiceRequest& request) const {
    const std::size_t context = engine_.options().context;
    QUIRE_RETURN_IF_ERROR(check_tokens(request.prompt));
    if (request.prompt.size() >= context)
      return fail(ErrorCode::kInvalidArgument,
                  "the prompt has {} tokens, which leaves no room to answer in a context of {} "
                  "tokens",
                  request.prompt.size(), context);
    if (request.n == 0 || request.best_of < request.n)
      return fail(ErrorCode::kInvalidArgument, "{} choices of {} answers cannot be given",
                  request.n, request.best_of);
    if (request.best_of > options_.planner.max_running)
      return fail(ErrorCode::kInvalidArgument, "{} answers at once are more than the {} that run",
                  request.best_of, options_.planner.max_running);
    QUIRE_RETURN_IF_ERROR(Sampler::create(request.sampling, engine_.spec().n_vocab));
    QUIRE_RETURN_IF_ERROR(StopMatcher::create(request.stop));
    std::size_t length = context;
    if (request.max_tokens > 0 && request.max_tokens < context - request.prompt.size())
      length = request.prompt.size() + request.max_tokens;
    return check_pages(length, request.prompt.size(), request.best_of);
  }

  Status check_tokens(std::span<const TokenId> tokens) const {
    if (tokens.empty()) return fail(ErrorCode::kInvalidArgument, "the prompt is empty");
    for (const TokenId token : tokens)
      if (token < 0 || static_cast<std::size_t>(token) >= engine_.spec().n_vocab)
        return fail(ErrorCode::kInvalidArgument, "token {} is not in the vocabulary of {} tokens",
                    token, engine_.spec().n_vocab);
    return {};
  }

  Status check_pages(std::size_t length, std::size_t n_shared, std::size_t n_branches) const {
    const auto pages = planner_.pages_at_most(length, n_shared, n_branches);
    if (pages <= pages_total_) return {};
    return fail(ErrorCode::kOutOfMemory,
                "{} tokens can need {} KV pages, the cache has {} (see --kv-memory)", length, pages,
                pages_total_);
  }

  static Error draining() {
    return {ErrorCode::kUnavailable, "the service is about to end and takes nothing new"};
  }

  /// Waits until there is something to do; false at the end.
  bool take_commands(std::vector<Command>& taken) {
    std::unique_lock lock(mutex_);
    stats_ = batch_.stats();
    changed_.wait(lock, [&] { return stopping_ || !commands_.empty() || !batch_.idle(); });
    if (stopping_) return false;
    taken = std::exchange(commands_, {});
    return true;
  }

  void run() {
    std::vector<Command> commands;
    while (take_commands(commands)) {
      for (const Command& each : commands) each(batch_);
      commands.clear();
      batch_.expire();
      if (!batch_.idle()) batch_.step();
    }
    for (const Command& each : std::exchange(commands_, {})) each(batch_);
    batch_.cancel_all();
    const std::lock_guard lock(mutex_);
    ended_ = true;
    flushed_.notify_all();
  }

  Engine& engine_;
  const ServiceOptions options_;
  const Planner planner_;
  const std::size_t pages_total_;
  Batch batch_;  // the step thread's

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable flushed_;
  std::vector<Command> commands_;
  std::uint64_t next_id_ = 1;
  std::atomic<std::size_t> n_embedding_{0};
  ServiceStats stats_;
  bool draining_ = false;
  bool stopping_ = false;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Service> Service::start(Engine& engine, const ServiceOptions& options) {
  return std::make_unique<ServiceImpl>(engine, options);
}

}  // namespace quire
