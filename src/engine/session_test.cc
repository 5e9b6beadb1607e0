#include "engine/session.h"

#include <gtest/gtest.h>

#include "engine/session_test_support.h"

namespace quire {
namespace {

using testing::greedy;
using testing::ids;
using testing::load;
using testing::some_tokens;
using testing::tiny_options;

TEST(Session, TheNextTurnComputesOnlyWhatIsNew) {
  for (const char* model : {"llama_mha_d64", "gemma3_pattern"}) {
    const auto engine = load(tiny_options(model));
    Session session(*engine);
    const auto first = session.generate(greedy(some_tokens(20), 5));
    ASSERT_TRUE(first.has_value()) << first.error().message;
    EXPECT_EQ(first->timings.prefill_tokens, 20u);
    EXPECT_EQ(ids(*first).size(), 5u);

    std::vector<TokenId> prompt = some_tokens(20);
    for (const TokenId t : ids(*first)) prompt.push_back(t);
    prompt.push_back(9);
    const auto second = session.generate(greedy(prompt, 8));
    ASSERT_TRUE(second.has_value());
    // The last token of the first answer was never fed back: it and the new one are computed.
    EXPECT_EQ(second->timings.cached_tokens, 24u);
    EXPECT_EQ(second->timings.prefill_tokens, 2u);

    Session fresh(*engine);
    EXPECT_EQ(ids(*fresh.generate(greedy(prompt, 8))), ids(*second));

    // Another beginning: what differs is computed again.
    prompt[10] = 77;
    const auto third = session.generate(greedy(prompt, 8));
    ASSERT_TRUE(third.has_value());
    EXPECT_LE(third->timings.cached_tokens, 10u);
    Session fresh2(*engine);
    EXPECT_EQ(ids(*fresh2.generate(greedy(prompt, 8))), ids(*third));
    EXPECT_TRUE(engine->kv().validate().has_value());
  }
}

TEST(Session, StopsWhereAsked) {
  const auto engine = load(tiny_options("llama_mha_d64"));
  Session session(*engine);
  const auto whole = session.generate(greedy(some_tokens(12), 30));
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->finish_reason, FinishReason::kLength);
  EXPECT_EQ(whole->tokens.size(), 30u);
  ASSERT_GE(whole->text.size(), 6u);

  GenerateRequest request = greedy(some_tokens(12), 30);
  // Any piece of the text, cut at character borders.
  std::size_t begin = whole->text.size() / 2;
  const auto continuation = [&](std::size_t i) {
    return i < whole->text.size() && (static_cast<unsigned char>(whole->text[i]) & 0xc0) == 0x80;
  };
  while (continuation(begin)) ++begin;
  std::size_t end = begin + 1;
  while (continuation(end)) ++end;
  const std::string stop = whole->text.substr(begin, end - begin);
  request.stop = {stop};
  std::string streamed;
  const auto stopped = session.generate(request, {.on_text =
                                                      [&](std::string_view text) {
                                                        streamed += text;
                                                        return true;
                                                      },
                                                  .on_prefill = {}});
  ASSERT_TRUE(stopped.has_value());
  EXPECT_EQ(stopped->finish_reason, FinishReason::kStop);
  EXPECT_EQ(stopped->text, whole->text.substr(0, whole->text.find(stop)));
  EXPECT_EQ(streamed, stopped->text);

  int pieces = 0;
  const auto cancelled = session.generate(
      greedy(some_tokens(12), 30),
      {.on_text = [&](std::string_view) { return ++pieces < 2; }, .on_prefill = {}});
  ASSERT_TRUE(cancelled.has_value());
  EXPECT_EQ(cancelled->finish_reason, FinishReason::kCancelled);
  EXPECT_LT(cancelled->tokens.size(), 30u);

  const auto stopped_early = session.generate(
      greedy(some_tokens(300), 3),
      {.on_text = {}, .on_prefill = [](std::size_t done, std::size_t) { return done == 0; }});
  ASSERT_TRUE(stopped_early.has_value());
  EXPECT_EQ(stopped_early->finish_reason, FinishReason::kCancelled);
}

TEST(Session, SeedsReproduce) {
  const auto engine = load(tiny_options("llama_mha_d64"));
  GenerateRequest request = greedy(some_tokens(12), 20);
  request.sampling.temperature = 1.5f;
  request.sampling.top_k = 0;
  request.sampling.seed = 7;
  Session a(*engine);
  Session b(*engine);
  const auto first = ids(*a.generate(request));
  EXPECT_EQ(first, ids(*b.generate(request)));
  EXPECT_EQ(first, ids(*a.generate(request)));
  request.sampling.seed = 8;
  EXPECT_NE(first, ids(*b.generate(request)));
}

TEST(Session, WhatWasGeneratedOutlivesARefusalOfMemory) {
  // Three pages in each layer: 48 tokens. The prompt takes 40.
  EngineOptions options = tiny_options("llama_mha_d64");
  const auto roomy = load(options);
  const auto whole = Session(*roomy).generate(greedy(some_tokens(40), 30));
  ASSERT_TRUE(whole.has_value());
  options.kv_memory = 3 * roomy->spec().layers.size() * roomy->kv().stats().page_bytes;
  const auto engine = load(options);
  Session session(*engine);
  std::string streamed;
  const auto cut = session.generate(greedy(some_tokens(40), 30), {.on_text =
                                                                      [&](std::string_view text) {
                                                                        streamed += text;
                                                                        return true;
                                                                      },
                                                                  .on_prefill = {}});
  ASSERT_TRUE(cut.has_value()) << cut.error().message;
  EXPECT_EQ(cut->finish_reason, FinishReason::kError);
  ASSERT_TRUE(cut->error.has_value());
  EXPECT_EQ(cut->error->code, ErrorCode::kOutOfMemory);
  // 48 tokens are cached; the one that their logits give is the last.
  EXPECT_EQ(cut->tokens.size(), 9u);
  EXPECT_EQ(session.cached_tokens(), 48u);
  const std::vector<TokenId> expected = ids(*whole);
  EXPECT_EQ(ids(*cut), std::vector<TokenId>(expected.begin(), expected.begin() + 9));
  EXPECT_EQ(streamed, cut->text);
  EXPECT_TRUE(engine->kv().validate().has_value());
  EXPECT_TRUE(session.generate(greedy(some_tokens(20), 5)).has_value());  // and it goes on
}

TEST(Session, RefusalsLeaveTheSessionUsable) {
  EngineOptions options = tiny_options("llama_mha_d64");
  options.context = 64;
  const auto engine = load(options);
  Session session(*engine);
  EXPECT_FALSE(session.generate(greedy({}, 5)).has_value());
  const auto too_long = session.generate(greedy(some_tokens(64), 5));
  ASSERT_FALSE(too_long.has_value());
  EXPECT_NE(too_long.error().message.find("64"), std::string::npos);
  EXPECT_FALSE(session.generate(greedy({5, 1 << 20}, 5)).has_value());
  // The context ends the answer.
  const auto full = session.generate(greedy(some_tokens(60), 100));
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(full->tokens.size(), 4u);
  EXPECT_EQ(full->finish_reason, FinishReason::kLength);
}

}  // namespace
}  // namespace quire
