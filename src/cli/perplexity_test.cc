#include "cli/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "model/weights.h"

namespace quire {
namespace {

// The rule of llama.cpp's perplexity tool, from its description: chunks of n_ctx tokens, the
// logits of positions n_ctx / 2 to n_ctx - 2 are scored, n_ctx - n_ctx / 2 - 1 of them.
TEST(PlanWindows, WithoutOverlapAreTheChunksOfLlamaCpp) {
  const auto windows = plan_windows(1700, 512, 512);
  ASSERT_EQ(windows.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(windows[i], (ScoreWindow{i * 512, i * 512 + 257, i * 512 + 512}));
    EXPECT_EQ(windows[i].end - windows[i].first_scored, 512u - 256u - 1u);
  }
}

TEST(PlanWindows, OverlapScoresNoTokenTwice) {
  for (const std::size_t stride : {1u, 3u, 8u, 9u, 15u}) {
    std::set<std::size_t> scored;
    for (const auto& window : plan_windows(100, 16, stride)) {
      EXPECT_EQ(window.end - window.begin, 16u);
      for (std::size_t i = window.first_scored; i < window.end; ++i) {
        EXPECT_GE(i, window.begin + 9);
        EXPECT_TRUE(scored.insert(i).second) << i;
      }
    }
    if (stride < 8) {
      EXPECT_EQ(*scored.rbegin() - *scored.begin() + 1, scored.size());
    }
  }
}

TEST(PlanWindows, ATextShorterThanAWindowHasNone) {
  EXPECT_TRUE(plan_windows(511, 512, 512).empty());
  EXPECT_EQ(plan_windows(512, 512, 512).size(), 1u);
}

// Four tokens; 0 is BOS.
class FourTokens : public Tokenizer {
 public:
  explicit FourTokens(bool add_bos) : Tokenizer(make_data(add_bos)) {}
  Result<std::vector<TokenId>> encode(std::string_view, ParseSpecial) const override {
    return std::vector<TokenId>{};
  }
  std::string token_bytes(TokenId, bool) const override { return ""; }
  bool adds_space_prefix() const override { return false; }

 private:
  static TokenizerData make_data(bool add_bos) {
    TokenizerData data;
    data.tokens = {"<s>", "a", "b", "c"};
    data.kinds.assign(4, TokenKind::kNormal);
    data.bos = 0;
    data.add_bos = add_bos;
    return data;
  }
};

// A model that knows only the last token: its logits are a row of a table.
class BigramEngine : public Engine {
 public:
  using Table = std::vector<std::vector<float>>;
  BigramEngine(Table table, bool add_bos, std::size_t chunk)
      : table_(std::move(table)), tokenizer_(add_bos), chat_(std::optional<ChatTemplate>()) {
    options_.prefill_chunk = chunk;
    KvConfig config;
    config.layers = {{KvLayout{.n_kv_heads = 1, .head_dim = 2}, 0}};
    config.budget_bytes = 1 << 20;
    kv_ = std::make_unique<KvManager>(std::move(*KvManager::create(config)));
  }

  const EngineOptions& options() const override { return options_; }
  const ModelSpec& spec() const override { return spec_; }
  const ModelWeights& weights() const override { return weights_; }
  const Tokenizer& tokenizer() const override { return tokenizer_; }
  const Result<std::optional<ChatTemplate>>& chat_template() const override { return chat_; }
  const KvManager& kv() const override { return *kv_; }
  SequenceId add_sequence() override { return SequenceId(next_++); }
  SequenceId add_sequence(std::string_view) override { return add_sequence(); }
  std::size_t adopt_prefix(SequenceId, std::span<const TokenId>, std::size_t) override { return 0; }
  Result<PrefixPin> pin_prefix(std::string_view, std::span<const TokenId>) override {
    return fail(ErrorCode::kUnsupported, "no");
  }
  Status unpin(PinId) override { return fail(ErrorCode::kUnsupported, "no"); }
  std::size_t flush_cache() override { return 0; }
  Result<std::span<const float>> hidden_step(SequenceId, std::span<const TokenId>) override {
    return fail(ErrorCode::kUnsupported, "no");
  }
  Result<SequenceId> fork(SequenceId) override { return fail(ErrorCode::kUnsupported, "no"); }
  Status truncate(SequenceId, std::size_t) override { return {}; }
  void release(SequenceId sequence) override { released.insert(sequence.value); }
  Result<StepLogits> prefill(SequenceId, std::span<const TokenId>,
                             const std::function<bool(std::size_t)>&) override {
    return fail(ErrorCode::kUnsupported, "no");
  }
  Result<StepLogits> step(std::span<const StepItem> items, const AcceptFn&) override {
    const auto& item = items.front();
    auto& seen = inputs[item.sequence.value];
    seen.insert(seen.end(), item.tokens.begin(), item.tokens.end());
    if (item.logits == LogitsWanted::kNone) return StepLogits{};
    values_.clear();
    for (const TokenId token : item.tokens) {
      const auto& row = table_[static_cast<std::size_t>(token)];
      values_.insert(values_.end(), row.begin(), row.end());
    }
    return StepLogits{values_, item.tokens.size(), 4};
  }

  std::map<std::uint32_t, std::vector<TokenId>> inputs;  // of each sequence
  std::set<std::uint32_t> released;

 private:
  Table table_;
  FourTokens tokenizer_;
  Result<std::optional<ChatTemplate>> chat_;
  EngineOptions options_;
  ModelSpec spec_;
  ModelWeights weights_;
  std::unique_ptr<KvManager> kv_;
  std::uint32_t next_ = 1;
  std::vector<float> values_;
};

// Rows of probabilities; any constant may be added to logits.
BigramEngine::Table log_table(const std::vector<std::vector<double>>& rows) {
  BigramEngine::Table table;
  for (const auto& row : rows) {
    table.emplace_back();
    for (const double p : row) table.back().push_back(static_cast<float>(std::log(p) + 3));
  }
  return table;
}

const std::vector<double> kUniform = {0.25, 0.25, 0.25, 0.25};
const std::vector<double> kSkewed = {0.125, 0.5, 0.25, 0.125};

TEST(Evaluation, ScoresTheSecondHalfOfEachWindow) {
  BigramEngine engine(log_table({kUniform, kSkewed, kUniform, kUniform}), false, 3);
  Evaluation evaluation(engine, nullptr, 2);
  // Windows of 8: targets 5, 6, 7 of each, predicted from tokens 4, 5, 6.
  const std::vector<TokenId> text = {1, 2, 3, 1, 1, 1, 2, 3, /**/ 3, 3, 3, 3, 1, 3, 3, 1};
  for (const auto& window : plan_windows(text.size(), 8, 8)) {
    ASSERT_TRUE(evaluation.add(text, window));
  }
  // 1→1: 1/2, 1→2: 1/4, 2→3: 1/4; 1→3: 1/8, 3→3: 1/4, 3→1: 1/4: in bits 1+2+2+3+2+2 = 12.
  EXPECT_EQ(evaluation.score().tokens, 6u);
  EXPECT_NEAR(evaluation.score().nll, 12 * std::log(2.0), 1e-5);
  EXPECT_NEAR(evaluation.score().perplexity(), 4.0, 1e-5);
  // Variance of {1,2,2,3,2,2} bits is 1/3; error 4 * ln 2 * sqrt(1/3 / 5).
  EXPECT_NEAR(evaluation.score().perplexity_error(), 4 * std::log(2.0) * std::sqrt(1.0 / 15), 1e-5);
  // Everything but the last token of a window was run, and given back.
  EXPECT_EQ(engine.inputs[1], (std::vector<TokenId>{1, 2, 3, 1, 1, 1, 2}));
  EXPECT_EQ(engine.inputs[2], (std::vector<TokenId>{3, 3, 3, 3, 1, 3, 3}));
  EXPECT_EQ(engine.released, (std::set<std::uint32_t>{1, 2}));
}

TEST(Evaluation, EveryWindowBeginsWithBosIfTheModelWantsOne) {
  BigramEngine engine(log_table({kUniform, kUniform, kUniform, kUniform}), true, 256);
  Evaluation evaluation(engine, nullptr, 1);
  const std::vector<TokenId> text(16, 2);
  for (const auto& window : plan_windows(text.size(), 8, 8)) {
    ASSERT_TRUE(evaluation.add(text, window));
  }
  EXPECT_EQ(engine.inputs[1], (std::vector<TokenId>{0, 2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(engine.inputs[2], (std::vector<TokenId>{0, 2, 2, 2, 2, 2, 2}));
}

TEST(Evaluation, DivergenceIsOfTheReferenceFromTheFastModel) {
  BigramEngine fast(log_table({kUniform, kUniform, kUniform, kUniform}), false, 256);
  BigramEngine exact(log_table({kUniform, kSkewed, kUniform, kUniform}), false, 256);
  Evaluation evaluation(fast, &exact, 2);
  const std::vector<TokenId> text = {1, 1, 1, 1, 1, 2, 1, 1};
  ASSERT_TRUE(evaluation.add(text, {0, 5, 8}));
  // KL(skewed || uniform) = 2 bits - entropy of skewed = 2 - 1.75 bits; twice of three tokens.
  ASSERT_EQ(evaluation.divergence().kl.size(), 3u);
  EXPECT_NEAR(evaluation.divergence().kl[0], 0.25 * std::log(2.0), 1e-6);
  EXPECT_NEAR(evaluation.divergence().kl[1], 0.0, 1e-6);
  EXPECT_NEAR(evaluation.divergence().mean(), 0.25 * std::log(2.0) * 2 / 3, 1e-6);
  EXPECT_NEAR(evaluation.divergence().quantile(1), 0.25 * std::log(2.0), 1e-6);
  // 1→2: 1/4, 2→1: 1/4, 1→1: 1/2 by the reference.
  EXPECT_NEAR(evaluation.reference_score().nll, 5 * std::log(2.0), 1e-5);
  EXPECT_NEAR(evaluation.score().nll, 6 * std::log(2.0), 1e-5);
}

TEST(Evaluation, APerplexityThatIsNoNumberIsAnError) {
  const std::vector<TokenId> text(8, 1);
  const auto check = [&](float other, float exact_other) {
    const auto table = [](float x) {
      return std::vector<std::vector<float>>(4, std::vector<float>{x, 0, 0, 0});
    };
    BigramEngine fast(table(other), false, 256);
    BigramEngine exact(table(exact_other), false, 256);
    Evaluation evaluation(fast, &exact, 1);
    EXPECT_TRUE(evaluation.add(text, {0, 5, 8}));
    const auto status = evaluation.check_figures();
    return status ? std::string() : status.error().message;
  };
  // log(double's maximum) is 709.78.
  EXPECT_EQ(check(709, 0), "");
  EXPECT_EQ(check(710, 0),
            "the perplexity is too large for a number: 710 nats per token over 3 tokens");
  EXPECT_EQ(
      check(0, 1e30f),
      "the perplexity of the reference is too large for a number: 1e+30 nats per token over 3 "
      "tokens");
}

TEST(Evaluation, BrokenLogitsAreAnError) {
  BigramEngine engine({{0, 0, 0, 0}, {0, NAN, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}}, false, 256);
  Evaluation evaluation(engine, nullptr, 1);
  EXPECT_FALSE(evaluation.add(std::vector<TokenId>(8, 1), {0, 5, 8}));
}

}  // namespace
}  // namespace quire
