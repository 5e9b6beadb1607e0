// Hyper-parameters that cannot be: the error names the file, the key and the byte of its record.

#include "model/hparams.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/gguf_test_writer.h"

namespace quire {
namespace {

constexpr const char* kEpsilon = "attention.layer_norm_rms_epsilon";

/// Keys of a model with 2 layers of 4 heads of 16, but for those `replace` writes itself.
struct Keys {
  GgufWriter w;
  std::map<std::string, std::uint64_t> at;

  void u32(const std::string& suffix, std::uint32_t value) {
    at[suffix] = w.u32("llama." + suffix, value);
  }
  void f32(const std::string& suffix, float value) { at[suffix] = w.f32("llama." + suffix, value); }
  void leave_out(const std::string& suffix) { at[suffix] = 0; }
};

using Add = std::function<void(Keys&)>;

Result<ModelSpec> read(const Add& add, std::uint64_t* offset = nullptr,
                       const std::string& suffix = "", std::vector<float> freq_factors = {}) {
  Keys keys;
  keys.w.string("general.architecture", "llama");
  add(keys);
  for (const auto& [name, value] :
       std::map<std::string, std::uint32_t>{{"block_count", 2},
                                            {"embedding_length", 64},
                                            {"context_length", 128},
                                            {"feed_forward_length", 32},
                                            {"attention.head_count", 4}})
    if (!keys.at.contains(name)) keys.u32(name, value);
  if (!keys.at.contains(kEpsilon)) keys.f32(kEpsilon, 1e-5f);
  keys.w.tensor("token_embd.weight", id_of(TensorType::kF32), {64, 2}, 0);
  keys.w.data_bytes = 512;
  const std::size_t factor_bytes = freq_factors.size() * sizeof(float);
  if (factor_bytes > 0) {
    keys.w.tensor("rope_freqs.weight", id_of(TensorType::kF32), {freq_factors.size()}, 512);
    keys.w.data_bytes = 512 + factor_bytes;
  }
  if (offset != nullptr) *offset = keys.at.at(suffix);
  auto bytes = keys.w.build();
  std::copy_n(reinterpret_cast<const std::byte*>(freq_factors.data()), factor_bytes,
              bytes.end() - static_cast<std::ptrdiff_t>(factor_bytes));
  QUIRE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::parse(bytes, "m.gguf"));
  return read_model_spec(file);
}

TEST(Hparams, ReadsWhatTheKeysSay) {
  const auto spec = read([](Keys&) {});
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_EQ(spec->head_dim, 16u);
  EXPECT_EQ(spec->layers.at(1).n_kv_heads, 4u);
  EXPECT_EQ(spec->n_vocab, 2u);
  // Without a count of KV heads, every layer has one for each of its own heads.
  const auto mixed = read([](Keys& k) {
    k.at["attention.head_count"] =
        k.w.array<std::uint32_t>("llama.attention.head_count", GgufType::kUint32, {4, 2});
  });
  ASSERT_TRUE(mixed.has_value()) << mixed.error().message;
  EXPECT_EQ(mixed->layers.at(0).n_kv_heads, 4u);
  EXPECT_EQ(mixed->layers.at(1).n_kv_heads, 2u);
}

TEST(Hparams, WhatCannotBeIsRefusedByKeyAndByte) {
  const struct {
    const char* suffix;
    std::uint32_t value;
    const char* why;
  } cases[] = {
      {"block_count", 0, "found the integer 0"},
      {"block_count", 1u << 31, "found the integer 2147483648"},
      {"embedding_length", 0, "found the integer 0"},
      {"embedding_length", 66, "66 elements do not divide into 4 heads"},
      {"embedding_length", 4, "heads of 1 elements"},
      {"attention.head_count", 0, "0 is not between 1 and 65536"},
      {"attention.head_count", 1u << 31, "2147483648 is not between 1 and 65536"},
      {"attention.head_count_kv", 0, "0 is not between 1 and 65536"},
      {"attention.head_count_kv", 3, "4 heads cannot share 3 KV heads (layer 0)"},
      {"attention.head_count_kv", 8, "4 heads cannot share 8 KV heads (layer 0)"},
      {"attention.key_length", 0, "found the integer 0"},
      {"attention.key_length", 15, "heads of 15 elements"},
      {"attention.value_length", 8, "values of 8 elements beside keys of 16"},
      {"feed_forward_length", 0, "0 is not between 1 and 16777216"},
      {"context_length", 0, "found the integer 0"},
      {"rope.dimension_count", 0, "found the integer 0"},
      {"rope.dimension_count", 7, "7 is odd"},
      {"rope.dimension_count", 18, "found the integer 18"},
  };
  for (const auto& c : cases) {
    std::uint64_t offset = 0;
    const auto spec = read([&](Keys& k) { k.u32(c.suffix, c.value); }, &offset, c.suffix);
    ASSERT_FALSE(spec.has_value()) << c.suffix << " " << c.value;
    const std::string where =
        "m.gguf: key 'llama." + std::string(c.suffix) + "' at byte " + std::to_string(offset);
    EXPECT_TRUE(spec.error().message.starts_with(where)) << spec.error().message;
    EXPECT_NE(spec.error().message.find(c.why), std::string::npos) << spec.error().message;
  }
}

TEST(Hparams, AMissingKeyIsRefusedByName) {
  for (const char* suffix : {"block_count", "embedding_length", "context_length",
                             "feed_forward_length", "attention.head_count", kEpsilon}) {
    const auto spec = read([&](Keys& k) { k.leave_out(suffix); });
    ASSERT_FALSE(spec.has_value()) << suffix;
    EXPECT_EQ(spec.error().message, fmt::format("m.gguf: key 'llama.{}' is missing", suffix));
  }
}

TEST(Hparams, TheVocabularyIsAsLargeAsTheEmbedding) {
  EXPECT_TRUE(read([](Keys& k) { k.u32("vocab_size", 2); }).has_value());
  const std::pair<std::function<void(GgufWriter&, const char*)>, const char*> cases[] = {
      {[](GgufWriter& w, const char* key) { w.u32(key, 7); },
       "7 tokens, but 'token_embd.weight' has 2 rows"},
      {[](GgufWriter& w, const char* key) { w.u32(key, 0); }, "found the integer 0"},
      {[](GgufWriter& w, const char* key) { w.i32(key, -1); }, "found the integer -1"},
      {[](GgufWriter& w, const char* key) { w.string(key, "2"); }, "found a string"},
      {[](GgufWriter& w, const char* key) { w.f32(key, 2); }, "found the number 2"},
  };
  for (const auto& [add, why] : cases) {
    const auto spec = read([&](Keys& k) { add(k.w, "llama.vocab_size"); });
    ASSERT_FALSE(spec.has_value()) << why;
    EXPECT_TRUE(spec.error().message.starts_with("m.gguf: key 'llama.vocab_size' at byte 69: "))
        << spec.error().message;
    EXPECT_NE(spec.error().message.find(why), std::string::npos) << spec.error().message;
  }
}

TEST(Hparams, DivisorsOfFrequenciesKeepAnglesFinite) {
  const auto with = [](float factor) {
    return read([](Keys&) {}, nullptr, "", {1, 1, 8, factor, 1, 1, 1, 1});
  };
  ASSERT_TRUE(with(32).has_value()) << with(32).error().message;
  // 1 / 1e-45 is infinite in f32, and infinity times position 0 is NaN.
  for (const float bad : {0.0f, -1.0f, 1e-45f, 1e-7f, 1e7f, std::nanf(""), INFINITY}) {
    const auto spec = with(bad);
    ASSERT_FALSE(spec.has_value()) << bad;
    EXPECT_NE(spec.error().message.find("tensor 'rope_freqs.weight' at byte"), std::string::npos)
        << spec.error().message;
  }
}

TEST(Hparams, TextOfTheFileIsHarmlessInMessages) {
  const auto scaling =
      read([](Keys& k) { k.w.string("llama.rope.scaling.type", "\x1b[2Jlongrope"); });
  ASSERT_FALSE(scaling.has_value());
  EXPECT_NE(scaling.error().message.find("'\\x1b[2Jlongrope'"), std::string::npos)
      << scaling.error().message;
  GgufWriter w;
  w.string("general.architecture", "\x1b]0;owned\x07");
  const auto bytes = w.build();
  const auto file = GgufFile::parse(bytes, "m.gguf");
  ASSERT_TRUE(file.has_value());
  const auto architecture = read_model_spec(*file);
  ASSERT_FALSE(architecture.has_value());
  EXPECT_TRUE(architecture.error().message.starts_with(
      "m.gguf: key 'general.architecture' at byte 24: '\\x1b]0;owned\\x07' is not supported"))
      << architecture.error().message;
}

}  // namespace
}  // namespace quire
