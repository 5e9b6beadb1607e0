#pragma once
// What Prometheus reads. Names and meanings are vLLM's where there is one (its boards work),
// quire_* elsewhere; docs/http.md lists them.

#include <memory>
#include <string>
#include <string_view>

#include "engine/service/service.h"
#include "engine/session.h"
#include "serve/http/http_options.h"

namespace quire {

/// All functions may be called from any thread; an observation costs about a hundred nanoseconds.
class Metrics {
 public:
  /// The content type of text().
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

  explicit Metrics(const std::string& model_name);
  ~Metrics();

  /// From the arrival of a request to the first token of its answer, when that is there.
  void observe_first_token(double seconds);
  /// Between two tokens of one choice.
  void observe_inter_token(double seconds);
  /// A request that has ended. Its times are only counted where it came so far.
  void observe_request(const ServiceUsage& usage, FinishReason reason);
  void observe_http(const RequestRecord& record);

  /// Takes over the state of the service: to be called before text(). Counters only grow.
  void update(const ServiceStats& stats);
  /// In Prometheus' text format.
  std::string text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
