#include "engine/engine.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/bytes.h"
#include "base/float16.h"
#include "engine/engine_options.h"
#include "engine/engine_test_support.h"

namespace quire {
namespace {

using testing::load;
using testing::some_tokens;
using testing::tiny_options;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Engine, RefusesOptionsThatCannotWork) {
  const auto refused = [](auto change) {
    EngineOptions options = tiny_options("llama_mha_d64");
    change(options);
    const auto engine = Engine::load(options);
    return engine ? std::string() : engine.error().message;
  };
  EXPECT_TRUE(contains(refused([](auto& o) { o.page_size = 24; }), "24"));
  EXPECT_TRUE(contains(refused([](auto& o) { o.n_threads = 100000; }), "100000"));
  EXPECT_TRUE(contains(refused([](auto& o) { o.prefill_chunk = 0; }), "0"));
  EXPECT_TRUE(contains(refused([](auto& o) { o.model = "no/such/file"; }), "no/such/file"));
  EXPECT_FALSE(refused([](auto& o) { o.kv_memory = 100; }).empty());
}

TEST(Engine, WeightsBeyondTheMemoryAreRefusedWithBothNumbers) {
  const auto file = GgufFile::open(tiny_options("llama_q8_0").model);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  std::uint64_t in_file = 0;
  std::uint64_t elements = 0;
  for (const GgufTensor& tensor : file->tensors()) {
    if (tensor.ne.size() != 2) continue;
    in_file += tensor.data.size();
    elements += tensor.ne[0] * tensor.ne[1];
  }
  EXPECT_TRUE(check_weights_fit(*file, Precision::kFast, in_file));
  EXPECT_TRUE(check_weights_fit(*file, Precision::kReference, 4 * elements));
  EXPECT_FALSE(check_weights_fit(*file, Precision::kReference, 4 * elements - 1));
  const auto status = check_weights_fit(*file, Precision::kFast, 2048);
  ASSERT_FALSE(status);
  EXPECT_TRUE(contains(status.error().message, "2.0 KiB are available")) << status.error().message;
  EXPECT_TRUE(contains(status.error().message, format_byte_size(in_file)));
}

TEST(Engine, AFailedStepChangesNothing) {
  EngineOptions options = tiny_options("llama_mha_d64");
  options.context = 40;
  const auto engine = load(options);
  const SequenceId s = engine->add_sequence();
  const auto tokens = some_tokens(30);
  ASSERT_TRUE(engine->prefill(s, tokens, {}).has_value());
  const KvStats before = engine->kv().stats();

  const auto refuse = [&](const std::vector<TokenId>& next, const std::string& part) {
    const StepItem item{.sequence = s, .tokens = next};
    const auto result = engine->step(std::span(&item, 1));
    ASSERT_FALSE(result.has_value());
    EXPECT_TRUE(contains(result.error().message, part)) << result.error().message;
    EXPECT_EQ(engine->kv().length(s), 30u);
    EXPECT_EQ(engine->kv().stats().pages_free, before.pages_free);
    EXPECT_TRUE(engine->kv().validate().has_value());
  };
  refuse({}, "needs tokens");
  refuse({-1}, "token -1");
  refuse({1000000}, "token 1000000");
  refuse(some_tokens(11), "41 tokens are more than the context of 40");
}

TEST(Engine, FullMemoryIsARefusalWithBothNumbersAndTheOldLength) {
  EngineOptions options = tiny_options("llama_mha_d64");
  options.prefill_chunk = 16;
  const auto probe = load(options);
  // Room for three pages in each layer: 48 tokens.
  options.kv_memory = probe->kv().stats().page_bytes * probe->spec().layers.size() * 3;
  const auto engine = load(options);
  const SequenceId first = engine->add_sequence();
  ASSERT_TRUE(engine->prefill(first, some_tokens(20), {}).has_value());

  // Would fit alone, but not beside the first: found out in the second chunk, rolled back.
  const SequenceId second = engine->add_sequence();
  const auto refused = engine->prefill(second, some_tokens(40), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(engine->kv().length(second), 0u);
  EXPECT_TRUE(engine->kv().validate().has_value());

  // Would never fit: refused before anything is computed.
  const auto never = engine->prefill(second, some_tokens(49), {});
  ASSERT_FALSE(never.has_value());
  EXPECT_EQ(never.error().code, ErrorCode::kOutOfMemory);

  engine->release(first);
  engine->release(first);
  EXPECT_TRUE(engine->prefill(second, some_tokens(40), {}).has_value());
  engine->release(second);
  EXPECT_EQ(engine->kv().stats().pages_free, engine->kv().stats().pages_total);
}

TEST(Engine, BatchedStepsReturnTheRowsAskedFor) {
  const auto engine = load(tiny_options("llama_mha_d64"));
  const SequenceId a = engine->add_sequence();
  const SequenceId b = engine->add_sequence();
  const auto tokens = some_tokens(9);
  const std::vector<StepItem> items = {
      {.sequence = a, .tokens = tokens, .logits = LogitsWanted::kAll},
      {.sequence = b, .tokens = std::span(tokens).first(4), .logits = LogitsWanted::kLast}};
  const auto logits = engine->step(items);
  ASSERT_TRUE(logits.has_value());
  ASSERT_EQ(logits->n_rows, 10u);
  // b read a's first four tokens: its last row is a's fourth.
  EXPECT_EQ(0, std::memcmp(logits->row(9).data(), logits->row(3).data(),
                           logits->vocab_size * sizeof(float)));
}

TEST(Engine, WindowLayersFreeWhatLeavesTheWindow) {
  EngineOptions options = tiny_options("gemma3_long");
  options.prefill_chunk = 32;
  const auto engine = load(options);
  const SequenceId s = engine->add_sequence();
  ASSERT_TRUE(engine->prefill(s, some_tokens(600), {}).has_value());
  for (std::size_t l = 0; l < engine->spec().layers.size(); ++l) {
    const std::size_t window = engine->spec().layers[l].window;
    const std::size_t pages = engine->kv().table(s, l).pages.size();
    if (window == 0)
      EXPECT_EQ(pages, (600u + 15) / 16);
    else
      EXPECT_LE(pages, window / 16 + 2) << "layer " << l;
  }
}

// The LM head over the hidden states gives the logits.
TEST(Engine, HiddenStatesAreWhatTheHeadReads) {
  EngineOptions options = tiny_options("llama_gqa4_d100");
  options.precision = Precision::kReference;
  options.kv_type = KvType::kF32;
  const auto engine = load(options);
  const auto tokens = testing::some_tokens(20);
  const SequenceId sequence = engine->add_sequence();
  const StepItem item{.sequence = sequence, .tokens = tokens, .logits = LogitsWanted::kAll};
  const auto step = engine->step(std::span(&item, 1));
  ASSERT_TRUE(step);
  const std::vector<float> logits(step->values.begin(), step->values.end());
  engine->release(sequence);
  const SequenceId again = engine->add_sequence();
  const auto hidden = engine->hidden_step(again, tokens);
  ASSERT_TRUE(hidden) << hidden.error().message;
  const std::size_t dim = engine->spec().hidden_dim;
  ASSERT_EQ(hidden->size(), tokens.size() * dim);
  EXPECT_EQ(engine->kv().length(again), tokens.size());

  const auto file = GgufFile::open(options.model);
  ASSERT_TRUE(file);
  const GgufTensor* head = file->find_tensor("output.weight");
  if (head == nullptr) head = file->find_tensor("token_embd.weight");
  ASSERT_EQ(head->type, TensorType::kF16);
  for (std::size_t t = 0; t < tokens.size(); ++t)
    for (std::size_t v = 0; v < engine->spec().n_vocab; v += 17) {
      double sum = 0;
      for (std::size_t i = 0; i < dim; ++i) {
        std::uint16_t half = 0;
        std::memcpy(&half, head->data.data() + (v * dim + i) * sizeof(half), sizeof(half));
        sum += static_cast<double>(f16_to_f32(half)) * static_cast<double>((*hidden)[t * dim + i]);
      }
      EXPECT_NEAR(sum, static_cast<double>(logits[t * engine->spec().n_vocab + v]), 1e-4);
    }
}

}  // namespace
}  // namespace quire
