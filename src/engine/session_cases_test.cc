// Failures that users of other engines reported, held where a session decides:
// docs/public-failures.md.

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

TEST(SessionCases, ARepeatFromTheCacheIsTheFirstAnswerToTheBit) {
  for (const char* model :
       {"llama_mha_d64", "llama_legacy_quants", "gemma3_pattern", "llama_window_long"}) {
    EngineOptions options = tiny_options(model);
    options.prefill_chunk = 13;
    const auto engine = load(options);
    for (const float penalty : {0.0f, 2.0f}) {
      GenerateRequest request = greedy(some_tokens(70), 12);
      request.sampling.logprobs = true;
      request.sampling.n_logprobs = 3;
      request.sampling.presence_penalty = penalty;
      request.sampling.frequency_penalty = penalty;
      request.sampling.repeat_penalty = 1 + penalty;
      const auto expected = Session(*engine).generate(request);
      ASSERT_TRUE(expected.has_value()) << expected.error().message;
      Session session(*engine);
      for (std::size_t repeat = 0; repeat < 4; ++repeat) {
        const auto again = session.generate(request);
        ASSERT_TRUE(again.has_value()) << again.error().message;
        // Window layers may have dropped what going back would need: then nothing is reused.
        const bool windows = engine->spec().layers.at(0).window != 0;
        EXPECT_TRUE(windows || (again->timings.cached_tokens > 0) == (repeat > 0)) << model;
        ASSERT_EQ(ids(*again), ids(*expected)) << model << ", repeat " << repeat;
        for (std::size_t i = 0; i < again->tokens.size(); ++i) {
          const SampledToken& a = again->tokens[i];
          const SampledToken& b = expected->tokens[i];
          EXPECT_EQ(a.logprob, b.logprob);
          ASSERT_EQ(a.top.size(), b.top.size());
          for (std::size_t k = 0; k < a.top.size(); ++k) {
            EXPECT_EQ(a.top[k].token, b.top[k].token);
            EXPECT_EQ(a.top[k].logprob, b.top[k].logprob);
          }
        }
        // In between, a prompt that shares its first half.
        if (repeat % 2 == 1) {
          auto other = greedy(some_tokens(70), 3);
          other.prompt[35] = 99;
          ASSERT_TRUE(session.generate(other).has_value());
        }
      }
    }
  }
}

TEST(SessionCases, PenaltiesCountTheCachedPartOfThePrompt) {
  const auto engine = load(tiny_options("llama_mha_d64"));
  // All of the vocabulary but three tokens: only those are left if every token of the prompt is
  // penalised by more than logits differ.
  const auto n_vocab = static_cast<TokenId>(engine->spec().n_vocab);
  GenerateRequest request = greedy({}, 1);
  for (TokenId t = 0; t + 3 < n_vocab; ++t) request.prompt.push_back(t);
  Session session(*engine);
  const auto free = session.generate(request);
  ASSERT_TRUE(free.has_value()) << free.error().message;
  EXPECT_LT(ids(*free).at(0), n_vocab - 3);
  request.sampling.presence_penalty = 100;
  const auto penalised = session.generate(request);
  ASSERT_TRUE(penalised.has_value());
  EXPECT_EQ(penalised->timings.prefill_tokens, 1u);
  EXPECT_GE(ids(*penalised).at(0), n_vocab - 3);
}

TEST(SessionCases, FinishReasonsAtTheBorders) {
  const auto engine = load(tiny_options("llama_mha_d64"));
  ASSERT_TRUE(engine->tokenizer().data().eos.has_value());
  const TokenId eos = *engine->tokenizer().data().eos;
  Session session(*engine);
  GenerateRequest request = greedy(some_tokens(12), 1);
  EXPECT_EQ(session.generate(request)->finish_reason, FinishReason::kLength);
  request.sampling.logit_bias = {{eos, 1000.0f}};
  request.ignore_eos = false;
  const auto ended = session.generate(request);  // EOS exactly at the limit
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->finish_reason, FinishReason::kStop);
  EXPECT_EQ(ended->text, "");
  request.ignore_eos = true;
  EXPECT_EQ(session.generate(request)->finish_reason, FinishReason::kLength);
}

TEST(SessionCases, AnAnswerThatEndsInsideACharacterIsValidText) {
  const auto engine = load(tiny_options("llama_mha_d64"));
  const auto n_vocab = static_cast<TokenId>(engine->spec().n_vocab);
  Session session(*engine);
  for (const char* byte : {"\xF0", "\xE6", "\xC3", "\x9F", "\xFF"}) {
    TokenId token = 0;
    while (token < n_vocab && engine->tokenizer().token_bytes(token, false) != byte) ++token;
    ASSERT_LT(token, n_vocab) << "the tiny model has a token for every byte";
    for (std::size_t n = 1; n <= 4; ++n) {
      GenerateRequest request = greedy(some_tokens(12), n);
      request.sampling.logit_bias = {{token, 1000.0f}};
      std::string streamed;
      const auto result = session.generate(request, {.on_text =
                                                         [&](std::string_view text) {
                                                           streamed += text;
                                                           return true;
                                                         },
                                                     .on_prefill = {}});
      ASSERT_TRUE(result.has_value());
      std::string expected;  // one U+FFFD for each byte that no other completes
      for (std::size_t i = 0; i < n; ++i) expected += "\uFFFD";
      EXPECT_EQ(result->text, expected);
      EXPECT_EQ(streamed, expected);
    }
  }
}

}  // namespace
}  // namespace quire
