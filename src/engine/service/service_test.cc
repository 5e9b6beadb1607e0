#include "engine/service/service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>

#include <string>
#include <vector>

#include "engine/service/service_testing.h"
#include "engine/session_test_support.h"

namespace quire {
namespace {

using testing::alone;
using testing::asking;
using testing::CollectingSink;
using testing::load;
using testing::submit;
using testing::tagged_tokens;
using testing::tiny_options;

constexpr const char* kLlama = "llama_gqa4_d100";

/// A cache of so many tokens in all layers.
EngineOptions with_pages(const std::string& model, std::size_t n_tokens) {
  EngineOptions options = tiny_options(model);
  const auto engine = load(options);
  options.kv_memory = kv_bytes_for(engine->kv().config(), n_tokens);
  options.context = std::min(n_tokens, engine->options().context);
  return options;
}

TEST(Service, AnswersAsASessionDoes) {
  const auto engine = load(tiny_options(kLlama));
  const auto prompt = tagged_tokens(50, 1);
  const auto expected = [&] {
    Session session(*engine);
    return session.generate(testing::greedy(prompt, 20));
  }();
  ASSERT_TRUE(expected) << expected.error().message;
  const auto service = Service::start(*engine, {});
  const auto sink = submit(*service, asking(prompt, 20));
  sink->wait();
  ASSERT_FALSE(sink->error());
  EXPECT_EQ(sink->choice(0).tokens, testing::ids(*expected));
  EXPECT_EQ(sink->choice(0).text, expected->text);
  EXPECT_EQ(sink->choice(0).reason, FinishReason::kLength);
  EXPECT_EQ(sink->usage().prompt_tokens, 50u);
  EXPECT_EQ(sink->usage().completion_tokens, 20u);
  EXPECT_EQ(sink->usage().cached_tokens, 0u);
}

TEST(Service, ManyAtOnceAreAnsweredAsIfAlone) {
  const EngineOptions options = tiny_options(kLlama);
  std::vector<ServiceRequest> requests;
  for (std::size_t i = 0; i < 12; ++i) {
    requests.push_back(asking(tagged_tokens(1 + i * 17, i), 5 + i * 3));
    requests.back().sampling.temperature = i % 2 == 0 ? 0.0f : 1.0f;
    requests.back().sampling.seed = i;
  }
  const auto engine = load(options);
  const auto service = Service::start(*engine, {.planner = {.max_running = 5, .step_tokens = 24}});
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (const auto& request : requests) sinks.push_back(submit(*service, request));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    sinks[i]->wait();
    EXPECT_EQ(sinks[i]->choices(), alone(options, requests[i])) << i;
  }
}

TEST(Service, TooFewPagesForAllPreemptAndStillAnswerAlike) {
  const EngineOptions options = with_pages(kLlama, 160);
  const auto engine = load(options);
  for (const bool prefix_cache : {true, false}) {
    const auto service =
        Service::start(*engine, {.planner = {.step_tokens = 32}, .prefix_cache = prefix_cache});
    std::vector<ServiceRequest> requests;
    std::vector<std::shared_ptr<CollectingSink>> sinks;
    for (std::size_t i = 0; i < 6; ++i) {
      requests.push_back(asking(tagged_tokens(20 + i, i), 100));
      sinks.push_back(submit(*service, requests.back()));
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      sinks[i]->wait();
      ASSERT_FALSE(sinks[i]->error()) << sinks[i]->error()->message;
      EXPECT_EQ(sinks[i]->choices(), alone(options, requests[i])) << i;
    }
    EXPECT_GT(service->stats().preemptions, 0u);
  }
  EXPECT_TRUE(engine->kv().validate());
}

TEST(Service, ARepeatedPromptIsFoundAndAnsweredAlike) {
  for (const char* model : {kLlama, "gemma3_pattern"}) {
    const auto engine = load(tiny_options(model));
    const auto service = Service::start(*engine, {});
    const auto first = submit(*service, asking(tagged_tokens(100, 3), 20));
    first->wait();
    const auto again = submit(*service, asking(tagged_tokens(100, 3), 20));
    again->wait();
    EXPECT_EQ(first->usage().cached_tokens, 0u);
    EXPECT_GE(again->usage().cached_tokens, 96u);
    EXPECT_LT(again->usage().cached_tokens, 100u);
    EXPECT_EQ(again->choices(), first->choices());
    // What was generated is found too.
    auto longer = tagged_tokens(100, 3);
    longer.insert(longer.end(), first->choice(0).tokens.begin(), first->choice(0).tokens.end());
    const auto turn = submit(*service, asking(longer, 5));
    turn->wait();
    EXPECT_GE(turn->usage().cached_tokens, 112u);
  }
}

TEST(Service, NamespacesDoNotShare) {
  const auto engine = load(tiny_options(kLlama));
  const auto service = Service::start(*engine, {});
  ServiceRequest request = asking(tagged_tokens(100, 3), 4);
  for (const char* name : {"", "a", "b", "ab"}) {
    request.cache_namespace = name;
    const auto sink = submit(*service, request);
    sink->wait();
    EXPECT_EQ(sink->usage().cached_tokens, 0u) << name;
  }
}

TEST(Service, ChoicesShareThePromptAndDrawOnTheirOwn) {
  const EngineOptions options = tiny_options(kLlama);
  ServiceRequest request = asking(tagged_tokens(70, 5), 12);
  request.sampling.temperature = 1.5f;
  request.sampling.seed = 40;
  std::vector<CollectingSink::Choice> expected;
  for (std::size_t i = 0; i < 4; ++i) {
    expected.push_back(alone(options, request).at(0));
    ++request.sampling.seed;
  }
  request.sampling.seed = 40;
  request.n = request.best_of = 4;
  const auto engine = load(options);
  const auto service = Service::start(*engine, {});
  const auto sink = submit(*service, request);
  sink->wait();
  ASSERT_EQ(sink->choices().size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(sink->choice(i), expected[i]) << i;
  EXPECT_NE(expected[0].tokens, expected[1].tokens);
  EXPECT_EQ(sink->usage().prompt_tokens, 70u);
  EXPECT_EQ(sink->usage().completion_tokens, 48u);
}

TEST(Service, BestOfGivesTheLikeliest) {
  const EngineOptions options = tiny_options(kLlama);
  ServiceRequest request = asking(tagged_tokens(30, 6), 8);
  request.sampling.temperature = 2.0f;
  request.n = request.best_of = 5;
  auto all = alone(options, request);
  request.n = 2;
  const auto best = alone(options, request);
  ASSERT_EQ(best.size(), 2u);
  const auto mean = [](const CollectingSink::Choice& choice) {
    double sum = 0;
    for (const float logprob : choice.logprobs) sum += logprob;
    return sum / static_cast<double>(choice.logprobs.size());
  };
  std::vector<CollectingSink::Choice> sorted;
  for (const auto& [i, choice] : all) sorted.push_back(choice);
  std::ranges::sort(sorted, [&](const auto& a, const auto& b) { return mean(a) > mean(b); });
  EXPECT_EQ(best.at(0), sorted[0]);
  EXPECT_EQ(best.at(1), sorted[1]);
}

TEST(Service, CancellingFreesEverything) {
  const auto engine = load(tiny_options(kLlama));
  {
    const auto service = Service::start(*engine, {.planner = {.max_running = 2}});
    std::vector<RequestId> ids;
    std::vector<std::shared_ptr<CollectingSink>> sinks;
    for (std::size_t i = 0; i < 5; ++i) {  // two run, three wait
      sinks.push_back(std::make_shared<CollectingSink>());
      if (i == 0) sinks[0]->hold();
      const auto id = service->submit(asking(tagged_tokens(40, i), 0), sinks.back());
      ASSERT_TRUE(id);
      ids.push_back(*id);
    }
    sinks[0]->wait_for_tokens(1);
    for (const RequestId id : ids) service->cancel(id);
    sinks[0]->release();
    for (const auto& sink : sinks) {
      sink->wait();
      EXPECT_FALSE(sink->error());
      for (const auto& [i, choice] : sink->choices())
        EXPECT_EQ(choice.reason, FinishReason::kCancelled);
    }
    service->cancel(ids[0]);  // again, which is nobody's concern
    const auto next = submit(*service, asking(tagged_tokens(10, 9), 2));
    next->wait();
    EXPECT_FALSE(next->error());
    service->flush_cache();
    const KvStats kv = service->stats().kv;
    EXPECT_EQ(kv.pages_free, kv.pages_total);
  }
  EXPECT_TRUE(engine->kv().validate());
}

TEST(Service, EndingCancelsWhatIsLeft) {
  const auto engine = load(tiny_options(kLlama));
  auto service = Service::start(*engine, {});
  const auto sink = submit(*service, asking(tagged_tokens(10, 1), 0));
  sink->wait_for_tokens(1);
  service.reset();
  EXPECT_TRUE(sink->ended());
  EXPECT_EQ(sink->choice(0).reason, FinishReason::kCancelled);
}

TEST(Service, RefusesWhatCannotWork) {
  const auto engine = load(with_pages(kLlama, 160));
  const auto service = Service::start(*engine, {.planner = {.max_running = 4}, .max_waiting = 1});
  const auto refused = [&](ServiceRequest request) {
    const auto id = service->submit(std::move(request), std::make_shared<CollectingSink>());
    EXPECT_FALSE(id);
    return id ? Error{} : id.error();
  };
  EXPECT_EQ(refused(asking({}, 1)).code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused(asking(tagged_tokens(160, 1), 1)).message.find("160"), std::string::npos);
  EXPECT_EQ(refused(asking({-1}, 1)).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused(asking({1'000'000}, 1)).code, ErrorCode::kInvalidArgument);
  ServiceRequest request = asking(tagged_tokens(100, 1), 50);
  request.n = request.best_of = 2;  // 100 and 2 x 50 tokens do not fit into 160
  EXPECT_EQ(refused(request).code, ErrorCode::kOutOfMemory);
  request.best_of = 1;
  EXPECT_EQ(refused(request).code, ErrorCode::kInvalidArgument);
  request.n = request.best_of = 5;
  EXPECT_EQ(refused(request).code, ErrorCode::kInvalidArgument);
  request = asking(tagged_tokens(10, 1), 1);
  request.stop = {""};
  EXPECT_EQ(refused(request).code, ErrorCode::kInvalidArgument);
  request.stop = {};
  request.sampling.top_p = 2;
  EXPECT_EQ(refused(request).code, ErrorCode::kInvalidArgument);
  service->drain();
  EXPECT_EQ(refused(asking(tagged_tokens(10, 1), 1)).code, ErrorCode::kUnavailable);
}

TEST(Service, AFullQueueIsBusy) {
  const auto engine = load(tiny_options(kLlama));
  const auto service = Service::start(*engine, {.planner = {.max_running = 1}, .max_waiting = 2});
  const auto runs = submit(*service, asking(tagged_tokens(10, 1), 0), /*hold=*/true);
  runs->wait_for_tokens(1);
  const auto second = submit(*service, asking(tagged_tokens(10, 2), 1));
  const auto third = submit(*service, asking(tagged_tokens(10, 3), 1));
  const auto id =
      service->submit(asking(tagged_tokens(10, 4), 1), std::make_shared<CollectingSink>());
  runs->release();
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().code, ErrorCode::kBusy);
}

TEST(Service, OneTenantDoesNotTakeEverything) {
  const auto engine = load(tiny_options(kLlama));
  const auto service =
      Service::start(*engine, {.planner = {.max_running = 8}, .max_per_tenant = 2});
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (std::size_t i = 0; i < 6; ++i) {
    ServiceRequest request = asking(tagged_tokens(10, i), 60);
    request.tenant = i < 5 ? "a" : "b";
    sinks.push_back(submit(*service, request, /*hold=*/i == 0));
  }
  sinks[0]->release();
  for (const auto& sink : sinks) sink->wait();
  // The last to come, of another tenant, waits for no more than the two that run.
  const auto before = std::ranges::count_if(
      sinks, [&](const auto& sink) { return sink->place() < sinks[5]->place(); });
  EXPECT_LE(before, 2);
}

TEST(Service, ADeadlineEndsARequest) {
  const auto engine = load(tiny_options(kLlama));
  const auto service = Service::start(*engine, {});
  ServiceRequest request = asking(tagged_tokens(10, 1), 0);
  request.deadline = std::chrono::steady_clock::now();
  const auto sink = submit(*service, request);
  sink->wait();
  ASSERT_TRUE(sink->error());
  EXPECT_EQ(sink->error()->code, ErrorCode::kUnavailable);
  EXPECT_NE(sink->error()->message.find("deadline"), std::string::npos);
}

TEST(Service, EmbedsBetweenSteps) {
  const EngineOptions options = tiny_options(kLlama);
  const auto tokens = tagged_tokens(90, 2);
  const auto embed = [&](std::size_t chunk, Pooling pooling, bool busy) {
    const auto engine = load(options);
    const auto service = Service::start(*engine, {.planner = {.step_tokens = chunk}});
    std::shared_ptr<CollectingSink> other;
    if (busy) other = submit(*service, asking(tagged_tokens(30, 8), 40));
    std::promise<Result<std::vector<float>>> promise;
    const auto taken =
        service->embed({tokens, pooling, nullptr,
                        [&](Result<std::vector<float>> result) { promise.set_value(result); }});
    EXPECT_TRUE(taken);
    const auto result = promise.get_future().get();
    EXPECT_TRUE(result);
    if (other) other->wait();
    return result.value();
  };
  const auto mean = embed(256, Pooling::kMean, false);
  const auto last = embed(256, Pooling::kLast, false);
  EXPECT_EQ(embed(7, Pooling::kMean, true), mean);
  EXPECT_EQ(embed(13, Pooling::kLast, true), last);
  EXPECT_NE(mean, last);
  // The LM head applied to the last hidden state gives the logits: checked in the engine's tests.
  double squares = 0;
  for (const float x : mean) squares += static_cast<double>(x) * static_cast<double>(x);
  EXPECT_NEAR(squares, 1.0, 1e-6);
}

TEST(Service, EmbeddingsAndAnswersWaitForEachOthersPages) {
  const EngineOptions options = with_pages(kLlama, 160);
  const auto engine = load(options);
  const auto service = Service::start(*engine, {.planner = {.step_tokens = 16}});
  const auto text = tagged_tokens(150, 1);
  std::vector<std::future<Result<std::vector<float>>>> vectors;
  std::vector<std::shared_ptr<CollectingSink>> sinks;
  for (std::size_t i = 0; i < 3; ++i) {
    auto promise = std::make_shared<std::promise<Result<std::vector<float>>>>();
    vectors.push_back(promise->get_future());
    ASSERT_TRUE(service->embed(
        {text, Pooling::kMean, nullptr,
         [promise](Result<std::vector<float>> result) { promise->set_value(std::move(result)); }}));
    sinks.push_back(submit(*service, asking(tagged_tokens(100, i), 40)));
  }
  for (auto& vector : vectors) EXPECT_TRUE(vector.get());
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    sinks[i]->wait();
    ASSERT_FALSE(sinks[i]->error()) << sinks[i]->error()->message;
    EXPECT_EQ(sinks[i]->choices(), alone(options, asking(tagged_tokens(100, i), 40))) << i;
  }
}

TEST(Service, PoliciesChangeTheOrderNotTheAnswers) {
  const EngineOptions options = with_pages(kLlama, 400);
  const auto engine = load(options);
  std::vector<ServiceRequest> requests;
  for (std::size_t i = 0; i < 5; ++i)
    requests.push_back(asking(tagged_tokens(30 + 40 * i, i), 10 + 9 * i));
  std::vector<std::map<std::size_t, CollectingSink::Choice>> expected;
  for (const auto& request : requests) expected.push_back(alone(options, request));
  for (const PlannerOptions& planner :
       {PlannerOptions{.batch = BatchPolicy::kStatic},
        PlannerOptions{.allocation = AllocationPolicy::kReserve}, PlannerOptions{.step_tokens = 7},
        PlannerOptions{.chunked_prefill = false}}) {
    const auto service = Service::start(*engine, {.planner = planner});
    std::vector<std::shared_ptr<CollectingSink>> sinks;
    for (const auto& request : requests) sinks.push_back(submit(*service, request));
    for (std::size_t i = 0; i < requests.size(); ++i) {
      sinks[i]->wait();
      EXPECT_EQ(sinks[i]->choices(), expected[i]) << i;
    }
  }
}

}  // namespace
}  // namespace quire
