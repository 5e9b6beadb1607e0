#include "serve/http/metrics.h"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

namespace quire {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Buckets = std::vector<double>;
template <typename Metric>
using Family = prometheus::Family<Metric>;

// Upper bounds in seconds, those of vLLM 0.11 and later: quantiles of boards come out alike.
const Buckets& first_token_buckets() {
  static const Buckets buckets{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25, 0.5,  0.75,
                               1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160., 640., 2560.};
  return buckets;
}
const Buckets& token_buckets() {
  static const Buckets buckets{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                               0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
  return buckets;
}
const Buckets& request_buckets() {
  static const Buckets buckets{0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                               5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                               60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
  return buckets;
}
/// Tokens: 1, 2, 5, 10, ...
const Buckets& count_buckets() {
  static const Buckets buckets{1,    2,    5,    10,    20,    50,    100,    200,   500,
                               1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};
  return buckets;
}

/// vLLM's words.
std::string_view reason_label(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "abort";
    case FinishReason::kError:
      break;
  }
  return "error";
}

constexpr std::array kReasons{FinishReason::kStop, FinishReason::kLength, FinishReason::kCancelled,
                              FinishReason::kError};

/// A method as a label: a client can make up as many as it likes.
std::string method_label(std::string_view method) {
  static constexpr std::array<std::string_view, 5> kKnown{"GET", "HEAD", "POST", "DELETE",
                                                          "OPTIONS"};
  return std::find(kKnown.begin(), kKnown.end(), method) != kKnown.end() ? std::string(method)
                                                                         : "other";
}

}  // namespace

struct Metrics::Impl {
  explicit Impl(const std::string& model_name)
      : labels{{"model_name", model_name}, {"engine", "0"}} {
    for (const FinishReason reason : kReasons)
      finished[static_cast<std::size_t>(reason)] =
          &success.Add({{"finished_reason", std::string(reason_label(reason))}});
  }

  Gauge& gauge(const std::string& name, const std::string& help,
               const prometheus::Labels& own = {}) {
    return prometheus::BuildGauge().Name(name).Help(help).Labels(labels).Register(registry).Add(
        own);
  }
  Counter& counter(const std::string& name, const std::string& help,
                   const prometheus::Labels& own = {}) {
    return prometheus::BuildCounter().Name(name).Help(help).Labels(labels).Register(registry).Add(
        own);
  }
  Histogram& histogram(const std::string& name, const std::string& help, const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Labels(labels).Register(registry).Add(
        {}, buckets);
  }
  Gauge& pages(const std::string& state) {
    return gauge("quire_kv_pages", "Pages of the KV cache by state.", {{"state", state}});
  }

  prometheus::Registry registry;
  const prometheus::Labels labels;
  std::mutex update_mutex;

  Histogram& first_token = histogram("vllm:time_to_first_token_seconds",
                                     "Time to first token in seconds.", first_token_buckets());
  Histogram& inter_token = histogram("vllm:inter_token_latency_seconds",
                                     "Time between two tokens in seconds.", token_buckets());
  Histogram& per_token = histogram(
      "vllm:request_time_per_output_token_seconds",
      "Mean time per output token after the first, by request, in seconds.", token_buckets());
  Histogram& e2e =
      histogram("vllm:e2e_request_latency_seconds",
                "From a request to the end of its answer in seconds.", request_buckets());
  Histogram& queue = histogram("vllm:request_queue_time_seconds",
                               "Time that a request waited in seconds.", request_buckets());
  Histogram& prefill =
      histogram("vllm:request_prefill_time_seconds",
                "From its start to the first token of a request in seconds.", request_buckets());
  Histogram& decode =
      histogram("vllm:request_decode_time_seconds",
                "From the first token to the end of a request in seconds.", request_buckets());
  Histogram& prompt_size =
      histogram("vllm:request_prompt_tokens", "Tokens of the prompt, by request.", count_buckets());
  Histogram& answer_size =
      histogram("vllm:request_generation_tokens", "Tokens generated, by request.", count_buckets());
  Family<Counter>& success = prometheus::BuildCounter()
                                 .Name("vllm:request_success_total")
                                 .Help("Requests that ended, by how.")
                                 .Labels(labels)
                                 .Register(registry);
  std::array<Counter*, kReasons.size()> finished{};

  Gauge& running = gauge("vllm:num_requests_running", "Sequences that are being computed.");
  Gauge& waiting = gauge("vllm:num_requests_waiting", "Requests that wait.");
  Gauge& usage = gauge("vllm:kv_cache_usage_perc", "Part of the KV cache in use; 1 is all of it.");
  Counter& queries = counter("vllm:prefix_cache_queries_total",
                             "Tokens of prompts that were looked for in the prefix cache.");
  Counter& hits = counter("vllm:prefix_cache_hits_total",
                          "Tokens of prompts that were found in the prefix cache.");
  Counter& preemptions = counter("vllm:num_preemptions_total", "Sequences that were preempted.");
  Counter& prompt_tokens =
      counter("vllm:prompt_tokens_total", "Tokens of prompts, found or computed.");
  Counter& generated = counter("vllm:generation_tokens_total", "Tokens generated.");

  Gauge& pages_free = pages("free");
  Gauge& pages_hot = pages("hot");
  Gauge& pages_sealed = pages("sealed");
  Gauge& pages_cached = pages("cached");
  Gauge& pages_budget = gauge("quire_kv_pages_budget", "Pages that the memory budget allows.");
  Gauge& page_bytes = gauge("quire_kv_page_bytes", "Size of a page of the KV cache.");
  Gauge& pages_pinned =
      gauge("quire_kv_pages_pinned", "Pages that pins keep, whatever their state.");
  Counter& evicted = counter("quire_kv_prefix_blocks_evicted_total",
                             "Blocks that left the prefix cache for others.");
  Counter& steps = counter("quire_steps_total", "Steps of the engine.");
  Counter& plan_s =
      counter("quire_step_seconds_total", "Time of steps by part.", {{"part", "plan"}});
  Counter& forward_s =
      counter("quire_step_seconds_total", "Time of steps by part.", {{"part", "forward"}});

  Family<Counter>& http_requests = prometheus::BuildCounter()
                                       .Name("quire_http_requests_total")
                                       .Help("HTTP requests by route, method and status.")
                                       .Register(registry);
  Family<Histogram>& http_seconds = prometheus::BuildHistogram()
                                        .Name("quire_http_request_seconds")
                                        .Help("From a request to the last byte of its answer.")
                                        .Register(registry);
  Family<Counter>& http_cut = prometheus::BuildCounter()
                                  .Name("quire_http_answers_cut_total")
                                  .Help("Answers that did not reach their end, by why.")
                                  .Register(registry);
  Counter& http_bytes = prometheus::BuildCounter()
                            .Name("quire_http_body_bytes_total")
                            .Help("Bytes of the bodies of answers.")
                            .Register(registry)
                            .Add({});
};

Metrics::Metrics(const std::string& model_name) : impl_(std::make_unique<Impl>(model_name)) {}

Metrics::~Metrics() = default;

void Metrics::observe_first_token(double seconds) { impl_->first_token.Observe(seconds); }

void Metrics::observe_inter_token(double seconds) { impl_->inter_token.Observe(seconds); }

void Metrics::observe_request(const ServiceUsage& usage, FinishReason reason) {
  Impl& m = *impl_;
  m.finished[static_cast<std::size_t>(reason)]->Increment();
  m.e2e.Observe(usage.total_s);
  m.prompt_size.Observe(static_cast<double>(usage.prompt_tokens));
  m.answer_size.Observe(static_cast<double>(usage.completion_tokens));
  if (usage.first_token_s <= 0) return;  // it ended in the queue or in its prompt
  const double decode_s = usage.total_s - usage.first_token_s;
  m.queue.Observe(usage.queue_s);
  m.prefill.Observe(usage.first_token_s - usage.queue_s);
  m.decode.Observe(decode_s);
  if (usage.completion_tokens > 1)
    m.per_token.Observe(decode_s / static_cast<double>(usage.completion_tokens - 1));
}

void Metrics::observe_http(const RequestRecord& record) {
  Impl& m = *impl_;
  const std::string route = record.route.empty() ? "other" : std::string(record.route);
  m.http_requests
      .Add({{"route", route},
            {"method", method_label(record.method)},
            {"status", fmt::format("{}", record.status)}})
      .Increment();
  m.http_seconds.Add({{"route", route}}, first_token_buckets()).Observe(record.seconds);
  m.http_bytes.Increment(static_cast<double>(record.body_bytes));
  if (record.outcome != "ok") m.http_cut.Add({{"why", std::string(record.outcome)}}).Increment();
}

void Metrics::update(const ServiceStats& stats) {
  Impl& m = *impl_;
  const std::lock_guard lock(m.update_mutex);  // two at once would add the same growth twice
  const auto set = [](Gauge& gauge, auto value) { gauge.Set(static_cast<double>(value)); };
  const auto raise = [](Counter& counter, auto value) {
    counter.Increment(static_cast<double>(value) - counter.Value());
  };
  const KvStats& kv = stats.kv;
  set(m.running, stats.running);
  set(m.waiting, stats.waiting);
  // What the cache keeps for later only can be had at any time, and counts as free, as in vLLM.
  set(m.usage, kv.pages_total == 0 ? 0.0
                                   : 1.0 - static_cast<double>(kv.pages_available) /
                                               static_cast<double>(kv.pages_total));
  raise(m.queries, kv.prefix_query_tokens);
  raise(m.hits, kv.prefix_hit_tokens);
  raise(m.preemptions, stats.preemptions);
  raise(m.prompt_tokens, stats.prompt_tokens);
  raise(m.generated, stats.generated_tokens);
  set(m.pages_free, kv.pages_free);
  set(m.pages_hot, kv.pages_hot);
  set(m.pages_sealed, kv.pages_sealed);
  set(m.pages_cached, kv.pages_cached);
  set(m.pages_budget, kv.pages_total);
  set(m.page_bytes, kv.page_bytes);
  set(m.pages_pinned, kv.pages_pinned);
  raise(m.evicted, kv.prefix_blocks_evicted);
  raise(m.steps, stats.steps);
  raise(m.plan_s, stats.plan_s);
  raise(m.forward_s, stats.forward_s);
}

std::string Metrics::text() const {
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace quire
