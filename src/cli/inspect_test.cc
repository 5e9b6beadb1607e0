#include "cli/inspect.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <functional>
#include <limits>

#include "model/gguf_test_writer.h"

namespace quire {
namespace {

namespace json = boost::json;

struct Inspected {
  std::string text;
  std::string json;
};

// Both forms of a file made of `add`'s keys and tensors.
Result<Inspected> inspect(const std::function<void(GgufWriter&)>& add) {
  GgufWriter w;
  add(w);
  const auto bytes = w.build();
  QUIRE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::parse(bytes, "m.gguf"));
  QUIRE_ASSIGN_OR_RETURN(const ModelSummary summary, summarize(file));
  return Inspected{inspect_text(file, summary), inspect_json(file, summary)};
}

void llama_keys(GgufWriter& w) {
  w.string("general.architecture", "llama");
  w.u32("llama.block_count", 4);
  w.u32("llama.embedding_length", 512);
  w.u32("llama.attention.head_count", 8);
}

std::uint64_t f16_bytes(const Inspected& inspected) {
  return json::parse(inspected.json)
      .at("kv")
      .at("bytes_per_token")
      .at("f16")
      .to_number<std::uint64_t>();
}

TEST(Inspect, KvBytesPerTokenFollowTheHeads) {
  // 4 layers x 8 heads x (64 + 64) x 2 bytes
  auto all = inspect(llama_keys);
  ASSERT_TRUE(all.has_value()) << all.error().message;
  EXPECT_EQ(f16_bytes(*all), 8192u);
  // grouped: 4 x 2 x 128 x 2
  auto grouped = inspect([](GgufWriter& w) {
    llama_keys(w);
    w.u32("llama.attention.head_count_kv", 2);
  });
  EXPECT_EQ(f16_bytes(*grouped), 2048u);
  // per layer, one without attention: (4 + 0 + 2 + 1) x 128 x 2
  auto per_layer = inspect([](GgufWriter& w) {
    llama_keys(w);
    w.array<std::int32_t>("llama.attention.head_count_kv", GgufType::kInt32, {4, 0, 2, 1});
  });
  EXPECT_EQ(f16_bytes(*per_layer), 1792u);
  // explicit lengths: 4 x 8 x (96 + 32) x 2
  auto lengths = inspect([](GgufWriter& w) {
    llama_keys(w);
    w.u32("llama.attention.key_length", 96);
    w.u32("llama.attention.value_length", 32);
  });
  EXPECT_EQ(f16_bytes(*lengths), 8192u);
}

TEST(Inspect, OtherArchitecturesAndBareFiles) {
  const auto mamba = inspect([](GgufWriter& w) {
    w.string("general.architecture", "mamba");
    w.u32("mamba.block_count", 24);
    w.string("tokenizer.ggml.model", "rwkv");
    w.strings("tokenizer.ggml.tokens", {"a", "b"});
    w.tensor("t", id_of(TensorType::kF16), {8, 2}, 0);
    w.data_bytes = 32;
  });
  ASSERT_TRUE(mamba.has_value()) << mamba.error().message;
  const json::value value = json::parse(mamba->json);
  EXPECT_TRUE(value.at("kv").is_null());
  EXPECT_EQ(value.at("architecture").as_string(), "mamba");
  EXPECT_EQ(value.at("parameters").to_number<int>(), 16);
  EXPECT_EQ(value.at("tensor_bytes").to_number<int>(), 32);
  EXPECT_EQ(value.at("hyper_parameters").at("block_count").to_number<int>(), 24);
  EXPECT_EQ(value.at("tokenizer").at("vocab_size").to_number<int>(), 2);
  EXPECT_FALSE(value.at("tokenizer").at("known").as_bool());
  EXPECT_EQ(value.at("tensors").at(0).at("shape"), json::value({8, 2}));

  const auto bare = inspect([](GgufWriter&) {});
  ASSERT_TRUE(bare.has_value());
  EXPECT_TRUE(json::parse(bare->json).at("architecture").is_null());
}

TEST(Inspect, TextFromTheFileIsHarmless) {
  const auto evil = inspect([](GgufWriter& w) {
    w.string("general.architecture", "x\x1b[2J");
    w.string("general.name", "\x1b]0;owned\x07 \xff \xe2\x80\xae");
    w.strings("general.tags", {"\r\n", "\x9b"});
    w.f32("general.nan", std::numeric_limits<float>::quiet_NaN());
    w.string("tokenizer.ggml.model", "llama");
    w.strings("tokenizer.ggml.tokens", {"\x1b[31m", "\xff\xfe", "c"});
  });
  ASSERT_TRUE(evil.has_value()) << evil.error().message;
  for (const char c : evil->text)
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << evil->text;
  EXPECT_NE(evil->text.find("\\x1b]0;owned\\x07 \\xff \\xe2\\x80\\xae"), std::string::npos);
  for (std::size_t i = 0; i + 1 < evil->json.size(); ++i)  // the last is the newline
    EXPECT_GE(static_cast<unsigned char>(evil->json[i]), 0x20);
  const json::value value = json::parse(evil->json);
  EXPECT_TRUE(value.at("metadata").at("general.nan").is_null());
  EXPECT_EQ(value.at("tokenizer").at("special").at("bos").at("text").as_string(),
            "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(Inspect, RefusesImpossibleHyperParameters) {
  const struct {
    std::function<void(GgufWriter&)> add;
    std::string message;
  } cases[] = {
      {[](GgufWriter& w) { w.u32("a.block_count", 0); }, "key 'a.block_count' at byte"},
      {[](GgufWriter& w) { w.u32("a.block_count", 1u << 31); }, "found the integer 2147483648"},
      {[](GgufWriter& w) { w.string("a.block_count", "many"); }, "found a string"},
      {[](GgufWriter& w) {
         w.u32("a.block_count", 2);
         w.u32("a.attention.head_count", 0);
       },
       "key 'a.attention.head_count' at byte"},
      {[](GgufWriter& w) {
         w.u32("a.block_count", 2);
         w.u32("a.attention.head_count", 8);
         w.u32("a.attention.head_count_kv", 0);
       },
       "key 'a.attention.head_count_kv' at byte"},
      {[](GgufWriter& w) {
         w.u32("a.block_count", 2);
         w.u32("a.attention.head_count", 8);
         w.u32("a.attention.head_count_kv", 3);
       },
       "8 heads cannot share 3 KV heads (layer 0)"},
      {[](GgufWriter& w) {
         w.u32("a.block_count", 4);
         w.u32("a.attention.head_count", 8);
         w.array<std::uint32_t>("a.attention.head_count_kv", GgufType::kUint32, {1, 2});
       },
       "2 values for 4 layers"},
      {[](GgufWriter& w) {
         w.u32("a.block_count", 4);
         w.u32("a.attention.head_count", 7);
         w.u32("a.embedding_length", 512);
       },
       "512 elements do not divide into 7 heads"},
      {[](GgufWriter& w) {
         w.string("tokenizer.ggml.model", "gpt2");
         w.strings("tokenizer.ggml.tokens", {"a"});
         w.u32("tokenizer.ggml.eos_token_id", 1);
       },
       "key 'tokenizer.ggml.eos_token_id' at byte"},
  };
  for (const auto& c : cases) {
    const auto result = inspect([&](GgufWriter& w) {
      w.string("general.architecture", "a");
      c.add(w);
    });
    ASSERT_FALSE(result.has_value()) << c.message;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidData);
    EXPECT_NE(result.error().message.find(c.message), std::string::npos) << result.error().message;
  }
}

// 30 layers x 3 KV heads x 2 x 64 elements x 2 bytes; the `gguf` package counts the parameters.
TEST(Inspect, SmolLM2) {
  const auto file = GgufFile::open(QUIRE_MODELS "/SmolLM2-135M-Instruct.Q4_1.gguf");
  ASSERT_TRUE(file.has_value()) << file.error().message << " (`make test` fetches it)";
  const auto summary = summarize(*file);
  ASSERT_TRUE(summary.has_value()) << summary.error().message;
  const json::value value = json::parse(inspect_json(*file, *summary));
  EXPECT_EQ(value.at("kv").at("bytes_per_token").at("f16").to_number<int>(), 23040);
  EXPECT_EQ(value.at("parameters").to_number<int>(), 134515008);
  EXPECT_EQ(value.at("tokenizer").at("special").at("eos").at("text").as_string(), "<|im_end|>");
}

}  // namespace
}  // namespace quire
