#include "model/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/gguf_test_writer.h"

namespace quire {
namespace {

const std::vector<std::string> kTokens = {"<unk>", "<s>", "</s>", "a", "b"};

Result<TokenizerData> read(const std::function<void(GgufWriter&)>& add,
                           std::string_view model = "llama") {
  GgufWriter w;
  w.string("tokenizer.ggml.model", model);
  w.strings("tokenizer.ggml.tokens", kTokens);
  add(w);
  const auto bytes = w.build();
  auto file = GgufFile::parse(bytes, "t.gguf");
  if (!file) return fail(std::move(file).error());
  return tokenizer_data_from_gguf(*file);
}

void nothing(GgufWriter&) {}

TEST(GgufTokenizer, DefaultsOfSentencePiece) {
  const auto data = read(nothing);
  ASSERT_TRUE(data.has_value()) << data.error().message;
  EXPECT_EQ(data->tokens, kTokens);
  EXPECT_TRUE(data->add_bos);
  EXPECT_FALSE(data->add_eos);
  EXPECT_TRUE(data->add_space_prefix);
  EXPECT_FALSE(data->remove_extra_whitespaces);
  EXPECT_EQ(data->unk, 0);
  EXPECT_EQ(data->bos, 1);
  EXPECT_EQ(data->eos, 2);
  EXPECT_EQ(data->pad, std::nullopt);
  EXPECT_TRUE(data->kinds.empty());
  EXPECT_TRUE(data->scores.empty());
}

TEST(GgufTokenizer, DefaultsOfByteLevelBpe) {
  const auto data = read(nothing, "gpt2");
  ASSERT_TRUE(data.has_value()) << data.error().message;
  EXPECT_FALSE(data->add_bos);
  EXPECT_FALSE(data->add_eos);
  EXPECT_FALSE(data->add_space_prefix);
  EXPECT_EQ(data->bos, std::nullopt);
  EXPECT_EQ(data->eos, std::nullopt);
  for (const char* pre : {"llama-bpe", "tekken"}) {
    const auto with_bos = read(
        [&](GgufWriter& w) {
          w.string("tokenizer.ggml.pre", pre);
          w.u32("tokenizer.ggml.bos_token_id", 1);
        },
        "gpt2");
    ASSERT_TRUE(with_bos.has_value()) << with_bos.error().message;
    EXPECT_TRUE(with_bos->add_bos) << pre;
  }
}

TEST(GgufTokenizer, KeysOverrideDefaults) {
  const auto data = read([](GgufWriter& w) {
    w.string("tokenizer.ggml.pre", "default");
    w.array<std::int32_t>("tokenizer.ggml.token_type", GgufType::kInt32, {2, 3, 3, 0, 6});
    w.array<float>("tokenizer.ggml.scores", GgufType::kFloat32, {0, 0, 0, -1.5f, -2});
    w.strings("tokenizer.ggml.merges", {"a b"});
    w.u32("tokenizer.ggml.bos_token_id", 4);
    w.u32("tokenizer.ggml.eos_token_id", 3);
    w.u32("tokenizer.ggml.eot_token_id", 2);
    w.u32("tokenizer.ggml.eom_token_id", 1);
    w.u32("tokenizer.ggml.unknown_token_id", 1);
    w.u32("tokenizer.ggml.padding_token_id", 0);
    w.boolean("tokenizer.ggml.add_bos_token", false);
    w.boolean("tokenizer.ggml.add_eos_token", true);
    w.boolean("tokenizer.ggml.add_space_prefix", false);
    w.boolean("tokenizer.ggml.remove_extra_whitespaces", true);
  });
  ASSERT_TRUE(data.has_value()) << data.error().message;
  EXPECT_EQ(data->pre, "default");
  EXPECT_EQ(data->kinds, (std::vector{TokenKind::kUnknown, TokenKind::kControl, TokenKind::kControl,
                                      TokenKind::kNormal, TokenKind::kByte}));
  EXPECT_EQ(data->scores, (std::vector<float>{0, 0, 0, -1.5f, -2}));
  EXPECT_EQ(data->bos, 4);
  EXPECT_EQ(data->eos, 3);
  EXPECT_EQ(data->eot, 2);
  EXPECT_EQ(data->eom, 1);
  EXPECT_EQ(data->unk, 1);
  EXPECT_EQ(data->pad, 0);
  EXPECT_FALSE(data->add_bos);
  EXPECT_TRUE(data->add_eos);
  EXPECT_FALSE(data->add_space_prefix);
  EXPECT_TRUE(data->remove_extra_whitespaces);
}

TEST(GgufTokenizer, RefusesWhatDoesNotAgree) {
  const struct {
    std::function<void(GgufWriter&)> add;
    std::string message;
  } cases[] = {
      {[](GgufWriter& w) {
         w.array<std::int32_t>("tokenizer.ggml.token_type", GgufType::kInt32, {1, 1});
       },
       "key 'tokenizer.ggml.token_type' at byte 168: it has 2 items for 5 tokens"},
      {[](GgufWriter& w) {
         w.array<std::int32_t>("tokenizer.ggml.token_type", GgufType::kInt32, {1, 1, 7, 1, 1});
       },
       "the type of token 2 is 7, not 0 to 6"},
      {[](GgufWriter& w) {
         w.array<float>("tokenizer.ggml.scores", GgufType::kFloat32, {0, 0, 0, 0, 0, 0});
       },
       "key 'tokenizer.ggml.scores' at byte 168: it has 6 items for 5 tokens"},
      {[](GgufWriter& w) {
         w.array<float>("tokenizer.ggml.scores", GgufType::kFloat32,
                        {0, 0, 0, 0, std::numeric_limits<float>::quiet_NaN()});
       },
       "not finite"},
      {[](GgufWriter& w) {
         w.array<double>("tokenizer.ggml.scores", GgufType::kFloat64, {0, 0, 0, 0, 1e300});
       },
       "does not fit"},
      {[](GgufWriter& w) { w.u32("tokenizer.ggml.bos_token_id", 5); },
       "key 'tokenizer.ggml.bos_token_id' at byte 168: expected an integer from 0 to 4, found the "
       "integer 5"},
      {[](GgufWriter& w) { w.u32("tokenizer.ggml.padding_token_id", 0xffffffff); },
       "key 'tokenizer.ggml.padding_token_id'"},
      {[](GgufWriter& w) { w.u32("tokenizer.ggml.add_bos_token", 1); }, "expected a boolean"},
      {[](GgufWriter& w) { w.string("tokenizer.ggml.merges", "a b"); }, "an array of strings"},
  };
  for (const auto& c : cases) {
    const auto data = read(c.add);
    ASSERT_FALSE(data.has_value()) << c.message;
    EXPECT_EQ(data.error().code, ErrorCode::kInvalidData);
    EXPECT_NE(data.error().message.find(c.message), std::string::npos) << data.error().message;
  }
}

TEST(GgufTokenizer, RefusesOtherModelsAndMissingParts) {
  const auto bert = read(nothing, "bert\x1b");
  ASSERT_FALSE(bert.has_value());
  EXPECT_EQ(bert.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(bert.error().message.find("'bert\\x1b'"), std::string::npos) << bert.error().message;
  const auto no_bos =
      read([](GgufWriter& w) { w.boolean("tokenizer.ggml.add_bos_token", true); }, "gpt2");
  ASSERT_FALSE(no_bos.has_value());
  EXPECT_NE(no_bos.error().message.find("bos_token_id' is missing"), std::string::npos);

  GgufWriter w;
  w.string("tokenizer.ggml.model", "gpt2");
  const auto bytes = w.build();
  const auto file = GgufFile::parse(bytes, "t.gguf");
  ASSERT_TRUE(file.has_value());
  const auto no_tokens = tokenizer_data_from_gguf(*file);
  ASSERT_FALSE(no_tokens.has_value());
  EXPECT_EQ(no_tokens.error().message, "t.gguf: key 'tokenizer.ggml.tokens' is missing");
}

Result<TokenizerData> read_special(const std::vector<std::string>& texts, TokenKind kind) {
  GgufWriter w;
  w.string("tokenizer.ggml.model", "llama");
  w.strings("tokenizer.ggml.tokens", texts);
  w.array<std::int32_t>("tokenizer.ggml.token_type", GgufType::kInt32,
                        std::vector<std::int32_t>(texts.size(), static_cast<int>(kind)));
  const auto bytes = w.build();
  return tokenizer_data_from_gguf(*GgufFile::parse(bytes, "t.gguf"));
}

TEST(GgufTokenizer, RefusesMoreTextToSearchForThanAnyModelHas) {
  const std::size_t kib = 1 << 10;
  const auto expect_refused = [](const std::vector<std::string>& texts, TokenKind kind,
                                 std::string_view why) {
    const auto data = read_special(texts, kind);
    ASSERT_FALSE(data.has_value()) << why;
    EXPECT_NE(data.error().message.find(why), std::string::npos) << data.error().message;
  };
  for (const TokenKind kind : {TokenKind::kUnknown, TokenKind::kControl, TokenKind::kUserDefined}) {
    std::vector<std::string> texts(2, std::string(512 * kib, 'a'));
    EXPECT_TRUE(read_special(texts, kind).has_value());
    texts.emplace_back("b");
    expect_refused(texts, kind,
                   "have 1048577 bytes of text, spaces counted as three, at most 1048576 allowed");
    expect_refused({std::string(384 * kib, ' '), "b"}, kind, "have 1179649 bytes");
    expect_refused({"a", "<\xFF>"}, kind, "token 1 ('<\\xff>')");
  }
  EXPECT_TRUE(read_special({std::string(2048 * kib, 'a'), "\xFF"}, TokenKind::kNormal).has_value());
}

// ---- building it

struct Vocabulary {
  std::vector<std::string> tokens = {"a", "b", "ab"};
  std::optional<std::vector<std::string>> merges = {{"a b"}};
  std::optional<std::string> pre = "gpt-2";
};

Result<std::unique_ptr<Tokenizer>> build(const Vocabulary& v, std::string_view model = "gpt2",
                                         std::size_t max_tokens = 3) {
  GgufWriter w;
  w.string("tokenizer.ggml.model", model);
  if (v.pre) w.string("tokenizer.ggml.pre", *v.pre);
  w.strings("tokenizer.ggml.tokens", v.tokens);
  if (v.merges) w.strings("tokenizer.ggml.merges", *v.merges);
  const auto bytes = w.build();
  const auto file = GgufFile::parse(bytes, "t.gguf");
  if (!file) return fail(file.error());
  auto data = usable_tokenizer_data(*file, max_tokens);
  if (!data) return fail(std::move(data).error());
  return build_tokenizer(*file, std::move(*data));
}

void expect_refused(const Result<std::unique_ptr<Tokenizer>>& built, std::string_view message,
                    ErrorCode code = ErrorCode::kInvalidData) {
  ASSERT_FALSE(built.has_value()) << message;
  EXPECT_TRUE(built.error().message.starts_with(message)) << built.error().message;
  EXPECT_EQ(built.error().code, code) << built.error().message;
}

TEST(TokenizerFromGguf, IsBuilt) {
  const auto built = build({});
  ASSERT_TRUE(built.has_value()) << built.error().message;
  EXPECT_EQ((*built)->encode("ab", ParseSpecial::kNo), (std::vector<TokenId>{2}));
}

TEST(TokenizerFromGguf, WhatIsMissingIsNamed) {
  expect_refused(build({.merges = std::nullopt}), "t.gguf: key 'tokenizer.ggml.merges' is missing",
                 ErrorCode::kNotFound);
  expect_refused(build({.pre = std::nullopt}),
                 "t.gguf: key 'tokenizer.ggml.pre' is missing: no pre-tokenizer is named",
                 ErrorCode::kUnsupported);
  expect_refused(build({}, "llama"), "t.gguf: key 'tokenizer.ggml.scores' is missing",
                 ErrorCode::kNotFound);
}

TEST(TokenizerFromGguf, WhatIsWrongIsNamedWithItsPlace) {
  expect_refused(build({.pre = "nonsense"}),
                 "t.gguf: key 'tokenizer.ggml.pre' at byte 68: the pre-tokenizer 'nonsense' is not "
                 "known; known are deepseek-llm",
                 ErrorCode::kUnsupported);
  expect_refused(build({.merges = {{"a"}}}),
                 "t.gguf: key 'tokenizer.ggml.merges' at byte 184: the tokenizer cannot be built: "
                 "merge 0 (\"a\") is not two tokens");
  expect_refused(build({.tokens = {"a", "b", "\xff"}}),
                 "t.gguf: key 'tokenizer.ggml.tokens' at byte 111: token 2 ('\\xff') is not valid");
  expect_refused(build({}, "gpt2", 2),
                 "t.gguf: key 'tokenizer.ggml.tokens' at byte 111: 3 tokens, but the embedding has "
                 "only 2 rows");
}

}  // namespace
}  // namespace quire
