#include "model/gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "model/gguf_test_writer.h"
#include "model/gguf_tokenizer.h"

namespace quire {
namespace {

// One of everything a file can hold.
GgufWriter valid_file() {
  GgufWriter w;
  w.string("general.architecture", "llama");
  w.u32("general.alignment", 64);
  w.u32("llama.block_count", 2);
  w.i32("llama.signed", 5);
  w.i32("llama.negative", -5);
  w.key("k.u8", ByteWriter().type(GgufType::kUint8).put(std::uint8_t{200}));
  w.key("k.i8", ByteWriter().type(GgufType::kInt8).put(std::int8_t{-100}));
  w.key("k.u16", ByteWriter().type(GgufType::kUint16).put(std::uint16_t{60000}));
  w.key("k.i16", ByteWriter().type(GgufType::kInt16).put(std::int16_t{-30000}));
  w.key("k.u64", ByteWriter().type(GgufType::kUint64).u64(~std::uint64_t{0}));
  w.key("k.i64", ByteWriter().type(GgufType::kInt64).put(std::int64_t{-1}));
  w.key("k.f64", ByteWriter().type(GgufType::kFloat64).put(0.1));
  w.f32("llama.rope.freq_base", 10000.5f);
  w.f32("k.nan", std::nanf(""));
  w.boolean("k.yes", true);
  w.string("k.bytes", std::string_view("\0\xff tokens are bytes", 18));
  w.array<std::uint32_t>("llama.per_layer", GgufType::kUint32, {3, 0, 7});
  w.array<std::int32_t>("k.signed_list", GgufType::kInt32, {1, -1});
  w.array<std::uint8_t>("k.bools", GgufType::kBool, {1, 0, 1});
  w.array<std::uint8_t>("k.empty", GgufType::kUint8, {});
  w.string("tokenizer.ggml.model", "llama");
  w.strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a"});
  w.array<float>("tokenizer.ggml.scores", GgufType::kFloat32, {0, 0, 0, -1.5f});
  w.array<std::int32_t>("tokenizer.ggml.token_type", GgufType::kInt32, {2, 3, 3, 1});
  w.tensor("token_embd.weight", id_of(TensorType::kQ4_0), {32, 4}, 0);
  w.tensor("output_norm.weight", id_of(TensorType::kF32), {32}, 128);
  w.alignment = 64;
  w.data_bytes = 256;
  return w;
}

GgufFile parse_valid(const std::vector<std::byte>& bytes) {
  auto file = GgufFile::parse(bytes, "valid.gguf");
  EXPECT_TRUE(file.has_value()) << file.error().message;
  return std::move(*file);
}

TEST(Gguf, ReadsEveryKindOfValue) {
  for (const std::uint32_t version : {2u, 3u}) {
    GgufWriter w = valid_file();
    w.version = version;
    const auto bytes = w.build();
    const GgufFile file = parse_valid(bytes);
    EXPECT_EQ(file.file_bytes(), bytes.size());
    EXPECT_EQ(file.metadata().size(), 24u);
    EXPECT_EQ(*file.require_string("general.architecture"), "llama");
    EXPECT_EQ(*file.require_uint("llama.block_count", 1, 100), 2u);
    EXPECT_EQ(*file.require_uint("llama.signed", 1, 100), 5u);
    EXPECT_EQ(std::get<std::int64_t>(*file.find("llama.negative")), -5);
    EXPECT_EQ(std::get<std::uint64_t>(*file.find("k.u8")), 200u);
    EXPECT_EQ(std::get<std::int64_t>(*file.find("k.i8")), -100);
    EXPECT_EQ(std::get<std::uint64_t>(*file.find("k.u16")), 60000u);
    EXPECT_EQ(std::get<std::int64_t>(*file.find("k.i16")), -30000);
    EXPECT_EQ(std::get<std::uint64_t>(*file.find("k.u64")), ~std::uint64_t{0});
    EXPECT_EQ(std::get<std::int64_t>(*file.find("k.i64")), -1);
    EXPECT_EQ(**file.optional_float("k.f64"), 0.1);
    EXPECT_EQ(**file.optional_float("llama.rope.freq_base"), 10000.5);
    EXPECT_EQ(**file.optional_bool("k.yes"), true);
    EXPECT_EQ(*file.require_string("k.bytes"), std::string_view("\0\xff tokens are bytes", 18));
    EXPECT_EQ(**file.optional_uints("llama.per_layer"), (std::vector<std::uint64_t>{3, 0, 7}));
    EXPECT_EQ(**file.optional_uints("llama.block_count"), (std::vector<std::uint64_t>{2}));
    EXPECT_EQ(**file.optional_ints("k.signed_list"), (std::vector<std::int64_t>{1, -1}));
    EXPECT_EQ(std::get<std::vector<bool>>(std::get<GgufArray>(*file.find("k.bools")).items),
              (std::vector<bool>{true, false, true}));
    EXPECT_EQ(std::get<GgufArray>(*file.find("k.empty")).size(), 0u);
    EXPECT_EQ(file.find("no.such.key"), nullptr);
  }
}

TEST(Gguf, FindsTensorsWhereTheyLie) {
  auto bytes = valid_file().build();
  bytes[bytes.size() - 128] = std::byte{42};  // the first byte of output_norm
  const GgufFile file = parse_valid(bytes);
  ASSERT_EQ(file.tensors().size(), 2u);
  const std::uint64_t ne[] = {32, 4};
  const auto embedding = file.require_tensor("token_embd.weight", ne);
  ASSERT_TRUE(embedding.has_value());
  EXPECT_EQ((*embedding)->type, TensorType::kQ4_0);
  EXPECT_EQ((*embedding)->n_elements(), 128u);
  EXPECT_EQ((*embedding)->data.size(), 4u * 18u);
  EXPECT_EQ((*embedding)->data.data(), bytes.data() + bytes.size() - 256);
  EXPECT_EQ(file.find_tensor("output_norm.weight")->data[0], std::byte{42});
  EXPECT_EQ(file.find_tensor("output_norm.weight")->data.size(), 128u);
}

TEST(Gguf, ForgottenMetadataLeavesTensors) {
  const auto bytes = valid_file().build();
  GgufFile file = parse_valid(bytes);
  ASSERT_FALSE(file.metadata().empty());
  const std::string key(file.metadata()[0].key);
  file.forget_metadata();
  EXPECT_TRUE(file.metadata().empty());
  EXPECT_EQ(file.find(key), nullptr);
  EXPECT_NE(file.find_tensor("output_norm.weight"), nullptr);
}

// What a failed typed read says: the file, the key, the byte, what was expected and what is there.
TEST(Gguf, TypedReadsRefuseWhatIsNotAsked) {
  GgufWriter w = valid_file();
  const auto at = w.u32("llama.attention.head_count", 0);
  const auto bytes = w.build();
  const GgufFile file = parse_valid(bytes);
  const auto zero = file.require_uint("llama.attention.head_count", 1, 1024);
  ASSERT_FALSE(zero.has_value());
  EXPECT_EQ(zero.error().code, ErrorCode::kInvalidData);
  EXPECT_EQ(zero.error().message, "valid.gguf: key 'llama.attention.head_count' at byte " +
                                      std::to_string(at) +
                                      ": expected an integer from 1 to 1024, found the integer 0");
  const auto missing = file.require_uint("llama.embedding_length", 1, 10);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().message, "valid.gguf: key 'llama.embedding_length' is missing");

  EXPECT_FALSE(file.require_uint("general.architecture", 0, 10).has_value());
  EXPECT_FALSE(file.require_uint("llama.negative", 0, ~std::uint64_t{0}).has_value());
  EXPECT_FALSE(file.require_uint("k.yes", 0, 10).has_value());
  EXPECT_FALSE(file.require_uint("llama.per_layer", 0, 10).has_value());
  EXPECT_FALSE(file.require_string("llama.block_count").has_value());
  EXPECT_FALSE(file.optional_float("llama.block_count").has_value());
  EXPECT_FALSE(file.optional_float("k.nan").has_value());
  EXPECT_FALSE(file.optional_bool("llama.block_count").has_value());
  EXPECT_FALSE(file.optional_uints("k.signed_list").has_value());
  EXPECT_FALSE(file.optional_uints("k.bools").has_value());
  EXPECT_FALSE(file.optional_strings("llama.per_layer").has_value());
  EXPECT_FALSE(file.optional_floats("llama.per_layer").has_value());
  EXPECT_FALSE(file.optional_ints("k.u64").has_value());

  ASSERT_TRUE(file.optional_uint("absent", 1, 1).has_value());
  EXPECT_EQ(*file.optional_uint("absent", 1, 1), std::nullopt);
  EXPECT_EQ(*file.optional_strings("absent"), nullptr);
}

TEST(Gguf, RequireTensorSaysWhatIsThere) {
  const auto bytes = valid_file().build();
  const GgufFile file = parse_valid(bytes);
  const std::uint64_t wrong[] = {64, 2};
  const auto result = file.require_tensor("token_embd.weight", wrong);
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message.find("has dimensions 32 x 4, expected 64 x 2"),
            std::string::npos)
      << result.error().message;
  const std::uint64_t column[] = {32, 1};  // trailing ones are no difference
  EXPECT_TRUE(file.require_tensor("output_norm.weight", column).has_value());
  const auto absent = file.require_tensor("output.weight", wrong);
  ASSERT_FALSE(absent.has_value());
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
}

TEST(Gguf, FileWithoutTensorsNeedsNoDataSection) {
  GgufWriter w;
  w.string("general.architecture", "llama");
  const auto bytes = w.build();
  EXPECT_EQ(parse_valid(bytes).tensors().size(), 0u);
}

// Touches everything an accepted file offers; returns a number that depends on all of it.
std::uint64_t touch(const GgufFile& file) {
  std::uint64_t sum = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    sum += tensor.n_elements();
    for (const std::byte b : tensor.data) sum += static_cast<std::uint64_t>(b);
    EXPECT_EQ(file.find_tensor(tensor.name), &tensor);
  }
  for (const GgufKeyValue& kv : file.metadata()) EXPECT_EQ(file.find(kv.key), &kv.value);
  const auto data = tokenizer_data_from_gguf(file);
  return data ? sum + data->tokens.size() : sum;
}

TEST(GgufProperty, TruncatedAnywhereIsRefusedOrWhole) {
  const auto bytes = valid_file().build();
  std::size_t accepted = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    // A copy of exactly this size, so that a sanitizer sees the first byte read too far.
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<long>(size));
    const auto file = GgufFile::parse(cut, "cut");
    if (!file) {
      EXPECT_FALSE(file.error().message.empty());
      continue;
    }
    ++accepted;
    touch(*file);
  }
  // The file ends with the last byte of its last tensor.
  EXPECT_EQ(accepted, 0u);
}

TEST(GgufProperty, FlippedBytesNeverCrash) {
  const auto original = valid_file().build();
  std::mt19937_64 random(3);
  std::size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    auto bytes = original;
    const int flips = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < flips; ++i) {
      // Half of the flips go to values that lengths and counts are sensitive to.
      const std::byte value = random() % 2 != 0 ? std::byte{0xff} : std::byte(random() % 256);
      bytes[random() % bytes.size()] = value;
    }
    const auto file = GgufFile::parse(bytes, "flipped");
    if (file) {
      touch(*file);
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5000u);  // the flips do reach what is checked
  EXPECT_LT(refused, 20000u);
}

// The real models: what the `gguf` package says of them.
TEST(GgufRealModel, SmolLM2) {
  const auto file = GgufFile::open(QUIRE_MODELS "/SmolLM2-135M-Instruct.Q4_1.gguf");
  ASSERT_TRUE(file.has_value()) << file.error().message << " (`make test` fetches it)";
  EXPECT_EQ(file->metadata().size(), 33u);
  EXPECT_EQ(file->tensors().size(), 272u);
  EXPECT_EQ(*file->require_uint("llama.embedding_length", 1, 4096), 576u);
  const std::uint64_t ne[] = {576, 49152};
  EXPECT_TRUE(file->require_tensor("token_embd.weight", ne).has_value());
}

TEST(GgufRealModel, Gemma3) {
  const auto file = GgufFile::open(QUIRE_MODELS "/gemma-3-270m.Q4_K_M.gguf");
  ASSERT_TRUE(file.has_value()) << file.error().message << " (`make test` fetches it)";
  EXPECT_EQ(file->metadata().size(), 33u);
  EXPECT_EQ(file->tensors().size(), 236u);
  EXPECT_EQ((*file->optional_strings("tokenizer.ggml.tokens"))->size(), 262144u);
}

}  // namespace
}  // namespace quire
