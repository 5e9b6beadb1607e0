#include "cli/bench_cost.h"

#include <gtest/gtest.h>

#include <utility>

#include "engine/engine_test_support.h"

namespace quire {
namespace {

// The tiny models' shapes are those of tests/oracle/tiny_specs.py.
TEST(ModelCost, CountsEveryMatrixOfAModelInF16) {
  const auto engine = testing::load(testing::tiny_options("llama_mha_d64"));
  const ModelCost cost = model_cost(engine->weights(), engine->kv().config());
  // hidden 24, 2 heads and 2 KV heads of 64, ffn 40, 2 layers, 261 tokens.
  const std::uint64_t per_layer = 24 * 128 * 2 + 24 * 128 * 2 + 3 * 24 * 40;
  const std::uint64_t only_logits = per_layer - 24 * 128 * 2;  // all of a layer but K and V
  EXPECT_EQ(cost.layers.f32_macs, 2 * per_layer - only_logits);
  EXPECT_EQ(cost.layers.int8_macs, 0u);
  EXPECT_EQ(cost.output.f32_macs, 261u * 24 + only_logits);
  // Two bytes a weight, and rows are packed by 16.
  EXPECT_GE(cost.layers.weight_bytes, 2 * (2 * per_layer - only_logits));
  EXPECT_LT(cost.layers.weight_bytes, 3 * (2 * per_layer - only_logits));
  EXPECT_GE(cost.output.weight_bytes, 2 * (261 * 24u + only_logits));
  EXPECT_EQ(cost.kv.layers.size(), 2u);
}

TEST(ModelCost, QuantizedMatricesMultiplyInInt8) {
  auto options = testing::tiny_options("llama_q8_0");
  const auto engine = testing::load(options);
  const ModelCost cost = model_cost(engine->weights(), engine->kv().config());
  // hidden 64, 4 heads and 2 KV heads of 16, ffn 96, 2 layers, 270 tokens.
  const std::uint64_t only_logits = 64 * 64 * 2 + 3 * 64 * 96;
  const std::uint64_t macs = 2 * (only_logits + 64 * 32 * 2) - only_logits;
  EXPECT_EQ(cost.layers.int8_macs, macs);
  EXPECT_EQ(cost.layers.f32_macs, 0u);
  EXPECT_EQ(cost.output.int8_macs, 270u * 64 + only_logits);
  options.precision = Precision::kReference;
  const auto reference = testing::load(options);
  const ModelCost in_f32 = model_cost(reference->weights(), reference->kv().config());
  EXPECT_EQ(in_f32.layers.f32_macs, macs);
  EXPECT_EQ(in_f32.layers.int8_macs, 0u);
  EXPECT_GE(in_f32.layers.weight_bytes, 4 * macs);
}

// A layer that sees everything and one that sees 4 tokens. A token's K and V are 2 * 2 * 8 = 32
// bytes in a layer.
ModelCost small_cost() {
  const KvLayout layout{.n_kv_heads = 1, .head_dim = 8};
  return {.layers = {.weight_bytes = 1000, .int8_macs = 700, .f32_macs = 30},
          .output = {.weight_bytes = 200, .int8_macs = 90},
          .kv = {.layers = {{layout, 0}, {layout, 4}}, .budget_bytes = 0}};
}

TEST(PassWork, ReadsWeightsOnceAndMultipliesPerToken) {
  const BenchWork work = pass_work(small_cost(), 3, 0, 2, 3);
  EXPECT_EQ(work.weight_bytes, 1200u);
  EXPECT_EQ(work.int8_macs, 6 * 700 + 3 * 90u);
  EXPECT_EQ(work.f32_macs, 6 * 30u);
  EXPECT_EQ(work.kv_bytes, 3 * (2 + 2) * 32u);
}

TEST(PassWork, WithoutLogitsTheOutputIsNotRead) {
  const BenchWork work = pass_work(small_cost(), 1, 0, 1, 0);
  EXPECT_EQ(work.weight_bytes, 1000u);
  EXPECT_EQ(work.int8_macs, 700u);
  EXPECT_EQ(work.kv_bytes, 32u);  // and no attention of the last layer
}

TEST(PassWork, AWindowIsAllThatIsReadOfALayer) {
  // The token at 9 sees 0 to 9, or 6 to 9.
  EXPECT_EQ(pass_work(small_cost(), 1, 9, 1, 1).kv_bytes, (10 + 4) * 32u);
  // Those at 9 and 10 together 0 to 10, or 6 to 10; in the last layer only 10 is computed.
  EXPECT_EQ(pass_work(small_cost(), 1, 9, 2, 1).kv_bytes, (11 + 4) * 32u);
  ModelCost window_first = small_cost();
  std::swap(window_first.kv.layers.front(), window_first.kv.layers.back());
  EXPECT_EQ(pass_work(window_first, 1, 9, 2, 1).kv_bytes, (5 + 11) * 32u);
}

TEST(CaseWork, APromptIsItsChunks) {
  const BenchWork work = case_work(small_cost(), {.is_prefill = true, .prompt = 5}, 2);
  // Passes over 2, 2 and 1 tokens; the last computes one row of logits.
  EXPECT_EQ(work.weight_bytes, 3 * 1000 + 200u);
  EXPECT_EQ(work.int8_macs, 5 * 700 + 90u);
  EXPECT_EQ(work.f32_macs, 5 * 30u);
  // 2, 4, 5 tokens without a window; in the last layer, which has one, 1 to 4 for the last chunk.
  EXPECT_EQ(work.kv_bytes, (2 + 4 + 5 + 4) * 32u);
}

TEST(CaseWork, OnlyTheLastTokenReadsTheLastLayer) {
  const BenchWork work = case_work(small_cost(), {.is_prefill = true, .prompt = 9}, 9);
  EXPECT_EQ(work.kv_bytes, (9 + 4) * 32u);
}

TEST(CaseWork, DecodingIsItsSteps) {
  const BenchWork work = case_work(small_cost(), {.depth = 8, .batch = 2, .generate = 3}, 256);
  EXPECT_EQ(work.weight_bytes, 3 * 1200u);
  EXPECT_EQ(work.int8_macs, 6 * 790u);
  EXPECT_EQ(work.kv_bytes, 2 * (9 + 10 + 11 + 3 * 4) * 32u);
}

TEST(CaseWork, SharedTokensAreReadOnce) {
  const BenchWork work =
      case_work(small_cost(), {.depth = 8, .batch = 2, .generate = 3, .shared = true}, 256);
  EXPECT_EQ(work.int8_macs, 6 * 790u);
  // Without a window 8 tokens and what each has of its own; with one, each its 4.
  EXPECT_EQ(work.kv_bytes, (3 * 8 + 2 * (1 + 2 + 3) + 2 * 3 * 4) * 32u);
}

TEST(WorkLimit, IsTheSlowerOfReadingAndMultiplying) {
  const Roofline roofline{
      .n_threads = 1, .memory_bytes = 100, .cache_bytes = 1e9, .int8_macs = 50, .f32_macs = 10};
  const BenchWork work{.weight_bytes = 150, .kv_bytes = 50, .int8_macs = 75, .f32_macs = 20};
  const BenchLimit limit = work_limit(work, roofline);
  EXPECT_DOUBLE_EQ(limit.memory_s, 2);
  EXPECT_DOUBLE_EQ(limit.compute_s, 1.5 + 2);
  EXPECT_DOUBLE_EQ(limit.seconds(), 3.5);
  EXPECT_DOUBLE_EQ(work_limit({.weight_bytes = 700}, roofline).seconds(), 7);
}

}  // namespace
}  // namespace quire
