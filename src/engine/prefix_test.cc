// A prompt whose beginning is cached must be answered as if it were not: to the bit.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine_test_support.h"

namespace quire {
namespace {

using testing::load;
using testing::some_tokens;
using testing::tiny_options;

std::vector<float> copy(const Result<StepLogits>& logits) {
  if (!logits) {
    ADD_FAILURE() << logits.error().message;
    return {};
  }
  return {logits->values.begin(), logits->values.end()};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::span<const TokenId> behind(const std::vector<TokenId>& tokens, std::size_t n) {
  return std::span(tokens).subspan(n);
}

/// Prefills what `sequence` lacks of the prompt, then decodes a few fixed tokens; all logits.
std::vector<float> answer(Engine& engine, SequenceId sequence, const std::vector<TokenId>& prompt) {
  const std::size_t had = engine.kv().length(sequence);
  std::vector<float> all = copy(engine.prefill(sequence, behind(prompt, had), {}));
  for (const TokenId token : {5, 9, 5, 44, 7}) {
    const StepItem item{.sequence = sequence, .tokens = std::span(&token, 1)};
    const auto row = copy(engine.step(std::span(&item, 1)));
    all.insert(all.end(), row.begin(), row.end());
  }
  EXPECT_TRUE(engine.kv().validate()) << engine.kv().validate().error().message;
  return all;
}

struct PrefixCase {
  std::string model;
  KvType kv_type;
  std::size_t page_size;
};

class PrefixTest : public ::testing::TestWithParam<PrefixCase> {
 protected:
  static EngineOptions options() {
    EngineOptions out = tiny_options(GetParam().model);
    out.kv_type = GetParam().kv_type;
    out.page_size = GetParam().page_size;
    out.prefill_chunk = 48;
    return out;
  }

  std::vector<float> cold(const std::vector<TokenId>& prompt) {
    const SequenceId alone = engine_->add_sequence();
    auto logits = answer(*engine_, alone, prompt);
    engine_->release(alone);
    return logits;
  }

  /// The answer from what is cached; `hit` is how much of the prompt has to be found.
  void expect_warm(const std::vector<TokenId>& prompt, std::size_t hit) {
    const SequenceId warm = engine_->add_sequence("tenant");
    EXPECT_EQ(engine_->adopt_prefix(warm, prompt, prompt.size() - 1), hit);
    EXPECT_TRUE(same_bits(answer(*engine_, warm, prompt), cold(prompt)))
        << prompt.size() << " tokens, " << hit << " found";
    engine_->release(warm);
  }

  void fill(const std::vector<TokenId>& prompt) {
    const SequenceId first = engine_->add_sequence("tenant");
    EXPECT_TRUE(engine_->prefill(first, prompt, {}).has_value());
    engine_->release(first);
  }

  std::unique_ptr<Engine> engine_ = load(options());
};

TEST_P(PrefixTest, AWarmAnswerIsTheColdOne) {
  const std::size_t page = GetParam().page_size;
  const auto text = some_tokens(5 * page + 3);
  fill(text);
  // Ends on a block, in the middle of one, one token before its end, and in the first one.
  for (const std::size_t n : {5 * page + 1, 3 * page + 7, 4 * page, std::size_t{9}})
    expect_warm(std::vector(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n)), n - 1);
  // Goes on differently: from the middle of a block, and from a block's first token.
  for (const std::size_t n : {2 * page + 5, 3 * page}) {
    auto other = text;
    for (std::size_t i = n; i < other.size(); ++i) other[i] = static_cast<TokenId>(200 - i % 50);
    expect_warm(other, n);
  }
  EXPECT_EQ(engine_->kv().stats().pages_available, engine_->kv().stats().pages_total);
}

TEST_P(PrefixTest, TheNextTurnOfAChatHitsAllOfTheLast) {
  const std::size_t page = GetParam().page_size;
  auto chat = some_tokens(2 * page + 2);
  std::size_t known = 0;
  for (int turn = 0; turn < 4; ++turn) {
    const SequenceId sequence = engine_->add_sequence("tenant");
    EXPECT_EQ(engine_->adopt_prefix(sequence, chat, chat.size() - 1), known) << turn;
    EXPECT_TRUE(same_bits(answer(*engine_, sequence, chat), cold(chat))) << turn;
    engine_->release(sequence);
    for (const TokenId token : {5, 9, 5, 44, 7}) chat.push_back(token);
    known = chat.size() / page * page;
    for (std::size_t i = 0; i < page; ++i) chat.push_back(static_cast<TokenId>(60 + turn * 7 + i));
  }
}

// B07: nothing is shared but within a namespace.
TEST_P(PrefixTest, NamespacesNeverMeet) {
  const auto text = some_tokens(3 * GetParam().page_size);
  fill(text);
  for (const std::string_view other : {"", "tenant ", "Tenant", "tenan"}) {
    EXPECT_EQ(engine_->kv().match_prefix(other, text, text.size()).n_tokens, 0u);
    const SequenceId sequence = engine_->add_sequence(other);
    EXPECT_EQ(engine_->adopt_prefix(sequence, text, text.size()), 0u);
    engine_->release(sequence);
  }
  EXPECT_EQ(engine_->kv().stats().prefix_namespaces, 1u);
}

INSTANTIATE_TEST_SUITE_P(Models, PrefixTest,
                         ::testing::Values(PrefixCase{"llama_gqa2_d80", KvType::kF32, 16},
                                           PrefixCase{"llama_gqa2_d80", KvType::kF16, 16},
                                           PrefixCase{"llama_long", KvType::kBF16, 32},
                                           PrefixCase{"gemma3_pattern", KvType::kF32, 16},
                                           PrefixCase{"gemma3_linear", KvType::kF16, 16},
                                           PrefixCase{"gemma3_linear", KvType::kBF16, 32}),
                         [](const auto& test) {
                           return test.param.model + "_" +
                                  std::string(kv_type_name(test.param.kv_type)) + "_" +
                                  std::to_string(test.param.page_size);
                         });

// Pages of window layers are reclaimed alone while a long text goes on, and whole blocks after it.
TEST(PrefixEviction, WhatIsFoundInAFullCacheIsRightAllTheSame) {
  EngineOptions options = tiny_options("gemma3_linear");
  options.prefill_chunk = 64;
  options.context = 512;
  const auto roomy = load(options);
  options.kv_memory = 0;  // one sequence of the whole context
  const auto engine = load(options);
  std::size_t hits = 0;
  for (const std::size_t n : {300, 410, 410, 305, 200, 480, 420, 300, 480}) {
    auto prompt = some_tokens(n);
    if (n % 20 != 0) prompt[100] = 7;
    const SequenceId warm = engine->add_sequence("tenant");
    hits += engine->adopt_prefix(warm, prompt, prompt.size() - 1);
    const SequenceId cold = roomy->add_sequence();
    EXPECT_TRUE(same_bits(answer(*engine, warm, prompt), answer(*roomy, cold, prompt))) << n;
    engine->release(warm);
    roomy->release(cold);
  }
  EXPECT_GT(hits, 600u);
  EXPECT_GT(engine->kv().stats().prefix_blocks_evicted, 0u);
}

}  // namespace
}  // namespace quire
