#pragma once
// Requests and their answers, for tests of the service.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine_test_support.h"
#include "engine/service/service.h"

namespace quire::testing {

/// Everything a request gave, in order.
class CollectingSink final : public ServiceSink {
 public:
  struct Choice {
    std::string text;
    std::vector<TokenId> tokens;
    std::vector<float> logprobs;
    std::optional<FinishReason> reason;
    friend bool operator==(const Choice&, const Choice&) = default;
  };

  void on_delta(const ChoiceDelta& delta) override {
    std::unique_lock lock(mutex_);
    EXPECT_FALSE(ended_);
    Choice& choice = choices_[delta.choice];
    EXPECT_FALSE(choice.reason) << "text after the end";
    choice.text += delta.text;
    for (const SampledToken& token : delta.tokens) {
      choice.tokens.push_back(token.token);
      choice.logprobs.push_back(token.logprob);
    }
    n_tokens_ += delta.tokens.size();
    changed_.notify_all();
    changed_.wait(lock, [&] { return !held_; });
  }
  void on_finish(std::size_t choice, FinishReason reason) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(choices_[choice].reason) << "two finish reasons";
    choices_[choice].reason = reason;
  }
  void on_done(const ServiceUsage& usage) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(ended_) << "two ends";
    usage_ = usage;
    end();
  }
  void on_error(const Error& error) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(ended_) << "two ends";
    error_ = error;
    end();
  }

  /// From the first token on no step is made until release(): what is submitted meanwhile finds the
  /// service as it is, however slow the machine.
  void hold() { held_ = true; }
  void release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }

  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
  }
  void wait_for_tokens(std::size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || n_tokens_ >= n; });
  }
  bool ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  /// Which end of all requests its own was, counted from 0. After wait().
  std::size_t place() const { return place_; }
  /// After wait().
  const std::map<std::size_t, Choice>& choices() const { return choices_; }
  const Choice& choice(std::size_t i) const { return choices_.at(i); }
  const ServiceUsage& usage() const { return usage_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  void end() {
    static std::atomic<std::size_t> n_ended{0};
    place_ = n_ended++;
    ended_ = true;
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::size_t, Choice> choices_;
  std::size_t n_tokens_ = 0;
  ServiceUsage usage_;
  std::optional<Error> error_;
  std::size_t place_ = 0;
  bool ended_ = false;
  bool held_ = false;
};

/// n tokens that differ from those of another `tag` from the first on.
inline std::vector<TokenId> tagged_tokens(std::size_t n, std::size_t tag) {
  std::vector<TokenId> out(n);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = static_cast<TokenId>(3 + (i * 7 + tag * 31 + i * tag % 13) % 200);
  return out;
}

inline ServiceRequest asking(std::vector<TokenId> prompt, std::size_t max_tokens) {
  ServiceRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.sampling.logprobs = true;
  request.ignore_eos = true;
  return request;
}

inline std::shared_ptr<CollectingSink> submit(Service& service, ServiceRequest request,
                                              bool hold = false) {
  auto sink = std::make_shared<CollectingSink>();
  if (hold) sink->hold();
  const auto id = service.submit(std::move(request), sink);
  EXPECT_TRUE(id) << (id ? "" : id.error().message);
  return sink;
}

/// The answer of a service that has nothing else to do and nothing cached.
inline std::map<std::size_t, CollectingSink::Choice> alone(const EngineOptions& options,
                                                           ServiceRequest request) {
  const auto engine = load(options);
  const auto service = Service::start(*engine, {.prefix_cache = false});
  const auto sink = submit(*service, std::move(request));
  sink->wait();
  return sink->choices();
}

}  // namespace quire::testing
