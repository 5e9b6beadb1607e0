#include "serve/http/metrics.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace quire {
namespace {

/// The value of a line that begins with `series`; "none" if there is no such line.
std::string value_of(const Metrics& metrics, const std::string& series) {
  std::istringstream lines(metrics.text());
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(series + " ")) return line.substr(series.size() + 1);
  return "none";
}

const std::string kLabels = R"(engine="0",model_name="m")";

TEST(Metrics, HaveTheNamesOfVllm) {
  const Metrics metrics("m");
  const std::string text = metrics.text();
  for (const std::string line :
       {"# TYPE vllm:time_to_first_token_seconds histogram",
        "# TYPE vllm:inter_token_latency_seconds histogram",
        "# TYPE vllm:request_time_per_output_token_seconds histogram",
        "# TYPE vllm:e2e_request_latency_seconds histogram",
        "# TYPE vllm:request_queue_time_seconds histogram",
        "# TYPE vllm:request_prefill_time_seconds histogram",
        "# TYPE vllm:request_decode_time_seconds histogram",
        "# TYPE vllm:request_prompt_tokens histogram",
        "# TYPE vllm:request_generation_tokens histogram", "# TYPE vllm:num_requests_running gauge",
        "# TYPE vllm:num_requests_waiting gauge", "# TYPE vllm:kv_cache_usage_perc gauge",
        "# TYPE vllm:prefix_cache_hits_total counter",
        "# TYPE vllm:prefix_cache_queries_total counter",
        "# TYPE vllm:num_preemptions_total counter", "# TYPE vllm:prompt_tokens_total counter",
        "# TYPE vllm:generation_tokens_total counter", "# TYPE vllm:request_success_total counter"})
    EXPECT_NE(text.find(line + "\n"), std::string::npos) << line;
  // A rate over a counter that appears with its first event misses that event.
  for (const std::string reason : {"stop", "length", "abort", "error"})
    EXPECT_EQ(value_of(metrics, "vllm:request_success_total{" + kLabels + ",finished_reason=\"" +
                                    reason + "\"}"),
              "0")
        << text;
}

TEST(Metrics, CountRequests) {
  Metrics metrics("m");
  metrics.observe_first_token(0.3);
  metrics.observe_inter_token(0.02);
  metrics.observe_inter_token(0.06);
  metrics.observe_request({.prompt_tokens = 100,
                           .completion_tokens = 11,
                           .queue_s = 0.25,
                           .first_token_s = 0.5,
                           .total_s = 1.5},
                          FinishReason::kLength);
  // Cancelled in the queue: no times but that of the whole.
  metrics.observe_request({.prompt_tokens = 7, .total_s = 4}, FinishReason::kCancelled);
  const auto value = [&](const std::string& name, const std::string& labels = "") {
    return value_of(metrics, "vllm:" + name + "{" + kLabels + labels + "}");
  };
  EXPECT_EQ(value("time_to_first_token_seconds_bucket", ",le=\"0.25\""), "0");
  EXPECT_EQ(value("time_to_first_token_seconds_bucket", ",le=\"0.5\""), "1");
  EXPECT_EQ(value("inter_token_latency_seconds_count"), "2");
  EXPECT_EQ(value("inter_token_latency_seconds_bucket", ",le=\"0.025\""), "1");
  EXPECT_EQ(value("e2e_request_latency_seconds_count"), "2");
  EXPECT_EQ(value("e2e_request_latency_seconds_sum"), "5.5");
  EXPECT_EQ(value("request_queue_time_seconds_count"), "1");
  EXPECT_EQ(value("request_queue_time_seconds_sum"), "0.25");
  EXPECT_EQ(value("request_prefill_time_seconds_sum"), "0.25");
  EXPECT_EQ(value("request_decode_time_seconds_sum"), "1");
  EXPECT_EQ(value("request_time_per_output_token_seconds_sum"), "0.1");
  EXPECT_EQ(value("request_prompt_tokens_sum"), "107");
  EXPECT_EQ(value("request_generation_tokens_sum"), "11");
  EXPECT_EQ(value("request_success_total", ",finished_reason=\"length\""), "1");
  EXPECT_EQ(value("request_success_total", ",finished_reason=\"abort\""), "1");
}

TEST(Metrics, FollowTheService) {
  Metrics metrics("m");
  ServiceStats stats;
  stats.running = 3;
  stats.waiting = 2;
  stats.kv.pages_total = 100;
  stats.kv.pages_available = 75;
  stats.kv.pages_hot = 25;
  stats.kv.pages_cached = 30;
  stats.kv.prefix_query_tokens = 1000;
  stats.kv.prefix_hit_tokens = 600;
  stats.prompt_tokens = 5000;
  stats.preemptions = 1;
  metrics.update(stats);
  stats.prompt_tokens = 7000;
  stats.running = 0;
  metrics.update(stats);
  metrics.update(stats);
  const auto value = [&](const std::string& name, const std::string& labels = "") {
    return value_of(metrics, name + "{" + kLabels + labels + "}");
  };
  EXPECT_EQ(value("vllm:num_requests_running"), "0");
  EXPECT_EQ(value("vllm:num_requests_waiting"), "2");
  EXPECT_EQ(value("vllm:kv_cache_usage_perc"), "0.25");
  EXPECT_EQ(value("vllm:prefix_cache_queries_total"), "1000");
  EXPECT_EQ(value("vllm:prefix_cache_hits_total"), "600");
  EXPECT_EQ(value("vllm:prompt_tokens_total"), "7000");
  EXPECT_EQ(value("vllm:num_preemptions_total"), "1");
  EXPECT_EQ(value("quire_kv_pages", ",state=\"hot\""), "25");
  EXPECT_EQ(value("quire_kv_pages", ",state=\"cached\""), "30");
}

TEST(Metrics, CountHttpRequestsByRouteNotByWhatClientsMakeUp) {
  Metrics metrics("m");
  for (int i = 0; i < 1000; ++i) {
    const std::string made_up = fmt::format("/{}", i), method = fmt::format("M{}", i);
    metrics.observe_http(
        {.method = method, .path = made_up, .route = "", .outcome = "ok", .status = 404});
  }
  metrics.observe_http({.method = "POST",
                        .path = "/v1/x",
                        .route = "/v1/*",
                        .outcome = "too_slow",
                        .status = 200,
                        .body_bytes = 10});
  EXPECT_EQ(
      value_of(metrics, R"(quire_http_requests_total{method="other",route="other",status="404"})"),
      "1000");
  EXPECT_EQ(
      value_of(metrics, R"(quire_http_requests_total{method="POST",route="/v1/*",status="200"})"),
      "1");
  EXPECT_EQ(value_of(metrics, R"(quire_http_answers_cut_total{why="too_slow"})"), "1");
  EXPECT_LT(metrics.text().size(), 50'000u);
}

TEST(Metrics, ManyThreadsLoseNothing) {
  Metrics metrics("m");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        metrics.observe_inter_token(0.01);
        const bool scrape = i % 1000 == 0;
        EXPECT_TRUE(!scrape || !metrics.text().empty());
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(value_of(metrics, "vllm:inter_token_latency_seconds_count{" + kLabels + "}"), "20000");
}

TEST(Metrics, TakeAnyNameForAModel) {
  const Metrics metrics("a \"b\"\nc\\d");
  EXPECT_NE(metrics.text().find(R"(model_name="a \"b\"\nc\\d")"), std::string::npos);
}

}  // namespace
}  // namespace quire
