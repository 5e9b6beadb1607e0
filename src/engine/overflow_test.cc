// A model whose numbers overflow while it runs must say so: rounding to integers, a softmax or a
// norm could each turn infinity and NaN into ordinary numbers, and the model would talk on.

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/temp_folder_testing.h"
#include "engine/engine_test_support.h"
#include "model/gguf.h"
#include "sample/sampler.h"

namespace quire {
namespace {

using testing::some_tokens;
using testing::tiny_options;

struct OverflowCase {
  std::string model;
  std::vector<std::string> tensors;  // of f32
  float factor = 1;
  KvType kv_type = KvType::kF32;
  std::string message;  // part of it
};

std::string scaled_copy(const OverflowCase& c, const testing::TempFolder& folder) {
  const std::string path = tiny_options(c.model).model;
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto file = GgufFile::open(path);
  EXPECT_TRUE(file.has_value()) << path;
  for (const std::string& name : c.tensors) {
    const GgufTensor* tensor = file->find_tensor(name);
    if (tensor == nullptr) throw std::runtime_error("no tensor " + name);
    EXPECT_EQ(tensor->type, TensorType::kF32) << name;
    std::vector<float> values(tensor->data.size() / sizeof(float));
    std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
    for (float& value : values) value *= c.factor;
    // The tensor is found by its bytes: where a mapping begins is nobody's business here.
    const std::string_view old(reinterpret_cast<const char*>(tensor->data.data()),
                               tensor->data.size());
    const std::size_t at = bytes.find(old);
    EXPECT_NE(at, std::string::npos) << name;
    EXPECT_EQ(bytes.find(old, at + 1), std::string::npos) << name << " occurs twice";
    std::memcpy(bytes.data() + at, values.data(), old.size());
  }
  const std::string copy = folder / "scaled.gguf";
  std::ofstream(copy, std::ios::binary) << bytes;
  return copy;
}

/// What a person hears, or "" if a token came out.
std::string answer(const OverflowCase& c, Precision precision) {
  const testing::TempFolder folder;
  EngineOptions options = tiny_options(c.model);
  options.model = scaled_copy(c, folder);
  options.precision = precision;
  options.kv_type = c.kv_type;
  const auto engine = testing::load(options);
  const SequenceId s = engine->add_sequence();
  const auto logits = engine->prefill(s, some_tokens(20), {});
  EXPECT_TRUE(engine->kv().validate().has_value());
  if (!logits) {
    EXPECT_EQ(engine->kv().length(s), 0u);
    EXPECT_EQ(engine->kv().stats().pages_free, engine->kv().stats().pages_total);
    return logits.error().message;
  }
  SamplerParams greedy;
  greedy.temperature = 0;
  auto sampler = Sampler::create(greedy, logits->vocab_size);
  EXPECT_TRUE(sampler.has_value());
  const auto token = sampler->sample(logits->row(0));
  return token ? "" : token.error().message;
}

void expect_answer(const OverflowCase& c) {
  for (const Precision precision : {Precision::kFast, Precision::kReference}) {
    const std::string message = answer(c, precision);
    if (c.message.empty()) {
      EXPECT_EQ(message, "") << c.model;
    } else {
      EXPECT_NE(message.find(c.message), std::string::npos)
          << c.model << " " << c.tensors.front() << ": '" << message << "'";
    }
  }
}

TEST(Overflow, OfTheCacheTypeNamesItAndALayer) {
  OverflowCase c = {
      "llama_mha_d64", {"blk.1.attn_norm.weight"}, 1e7f, KvType::kF16, "f16 in layer 1 (--kv"};
  expect_answer(c);
  c.message = "";  // both have the range
  c.kv_type = KvType::kBF16;
  expect_answer(c);
  c.kv_type = KvType::kF32;
  expect_answer(c);
}

// The fault names the sequence it is in, and everyone keeps what they had.
TEST(Overflow, FailsTheStepOfAllAndSaysWhose) {
  const testing::TempFolder folder;
  EngineOptions options = tiny_options("llama_mha_d64");
  options.n_threads = 3;
  options.kv_type = KvType::kF16;
  const auto unharmed = testing::load(options);
  options.model =
      scaled_copy({"llama_mha_d64", {"blk.1.attn_norm.weight"}, 1e7f, KvType::kF16, ""}, folder);
  const auto engine = testing::load(options);
  std::vector<StepItem> items;
  const auto tokens = some_tokens(9);
  for (const std::size_t n : {4, 2, 9}) {
    items.push_back({.sequence = engine->add_sequence(), .tokens = std::span(tokens).first(n)});
    unharmed->add_sequence();
  }
  EXPECT_TRUE(unharmed->step(items).has_value());
  const auto failed = engine->step(items);
  ASSERT_FALSE(failed.has_value());
  EXPECT_NE(failed.error().message.find("at position 0 of sequence 0 of the step"),
            std::string::npos)
      << failed.error().message;
  for (const StepItem& item : items) EXPECT_EQ(engine->kv().length(item.sequence), 0u);
  EXPECT_TRUE(engine->kv().validate().has_value());
}

TEST(Overflow, OfScoresIsNotAWeightOfZero) {
  expect_answer({"gemma3_pattern",
                 {"blk.0.attn_q_norm.weight", "blk.0.attn_k_norm.weight"},
                 1e30f,
                 KvType::kF32,
                 "overflow f32 in layer 1"});
}

TEST(Overflow, OfTheLastFfnReachesTheLogits) {
  expect_answer(
      {"llama_mha_d64", {"blk.1.ffn_norm.weight"}, 1e25f, KvType::kF32, "logit of token"});
}

// The FFN of layer 0 makes values whose squares overflow, not they themselves.
TEST(Overflow, OfTheSquaresInANormIsNotARowOfZeros) {
  expect_answer(
      {"llama_mha_d64", {"blk.0.ffn_norm.weight"}, 1e14f, KvType::kF32, "overflow f32 in layer 1"});
}

}  // namespace
}  // namespace quire
