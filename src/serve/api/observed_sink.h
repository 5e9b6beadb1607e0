#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/stopwatch.h"
#include "engine/service/service.h"
#include "serve/http/metrics.h"

namespace quire::api {

/// Passes everything on, and tells the metrics when it came.
class ObservedSink final : public ServiceSink {
 public:
  ObservedSink(std::shared_ptr<ServiceSink> sink, Metrics& metrics)
      : sink_(std::move(sink)), metrics_(metrics) {}

  void on_delta(const ChoiceDelta& delta) override {
    const double now = since_submit_.seconds();
    if (!delta.tokens.empty()) {
      if (!first_token_) metrics_.observe_first_token(now);
      first_token_ = true;
      auto [last, is_new] = last_token_.try_emplace(delta.choice, now);
      if (!is_new) metrics_.observe_inter_token(now - last->second);
      last->second = now;
    }
    sink_->on_delta(delta);
  }
  void on_finish(std::size_t choice, FinishReason reason) override {
    reason_ = reason;
    sink_->on_finish(choice, reason);
  }
  void on_done(const ServiceUsage& usage) override {
    metrics_.observe_request(usage, reason_);
    sink_->on_done(usage);
  }
  void on_error(const Error& error) override {
    metrics_.observe_request({.total_s = since_submit_.seconds()}, FinishReason::kError);
    sink_->on_error(error);
  }

 private:
  std::shared_ptr<ServiceSink> sink_;
  Metrics& metrics_;
  Stopwatch since_submit_;
  std::map<std::size_t, double> last_token_;  // by choice
  bool first_token_ = false;
  FinishReason reason_ = FinishReason::kCancelled;  // unless a choice says otherwise
};

}  // namespace quire::api
