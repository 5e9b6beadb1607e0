#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include "text/utf8.h"

namespace quire {
namespace {

using Ids = std::vector<TokenId>;

/// SentencePiece pieces: three special tokens, 256 bytes unless left out, then the ordinary ones.
TokenizerData spm_data(bool with_bytes = true) {
  TokenizerData data;
  data.model = "llama";
  data.tokens = {"<unk>", "<s>", "</s>"};
  data.kinds = {TokenKind::kUnknown, TokenKind::kControl, TokenKind::kControl};
  data.scores = {0, 0, 0};
  data.bos = 1;
  data.eos = 2;
  data.unk = 0;
  data.add_bos = true;
  const auto add = [&](std::string text, TokenKind kind, float score) {
    data.tokens.push_back(std::move(text));
    data.kinds.push_back(kind);
    data.scores.push_back(score);
  };
  for (int byte = 0; with_bytes && byte < 256; ++byte) {
    add(fmt::format("<0x{:02X}>", byte), TokenKind::kByte, 0);
  }
  float score = -1;
  for (const char* piece : {"▁a", "ab", "▁ab", "b▁", "▁", "a", "b", "c", "é"}) {
    add(piece, TokenKind::kNormal, score);
    score -= 1;
  }
  add("<tag>", TokenKind::kUserDefined, -1000);
  return data;
}

std::unique_ptr<Tokenizer> create(TokenizerData data,
                                  std::span<const std::string_view> merges = {}) {
  auto tokenizer = Tokenizer::create(std::move(data), merges);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return tokenizer ? std::move(*tokenizer) : nullptr;
}

std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text,
                                ParseSpecial special = ParseSpecial::kNo) {
  const auto ids = tokenizer.encode(text, special);
  EXPECT_TRUE(ids);
  std::vector<std::string> out;
  for (const TokenId id : ids.value_or(Ids{})) {
    out.push_back(tokenizer.data().tokens[static_cast<std::size_t>(id)]);
  }
  return out;
}

std::string decode(const Tokenizer& tokenizer, const Ids& ids) {
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

using Pieces = std::vector<std::string>;

TEST(SpmTokenizer, MergesTheBestScoreFirst) {
  const auto tokenizer = create(spm_data());
  ASSERT_TRUE(tokenizer);
  // With the prefix the text is ▁ab: ▁a has the best score, and ▁ab can grow from it.
  EXPECT_EQ(pieces(*tokenizer, "ab"), (Pieces{"▁ab"}));
  // b▁ would be a piece, but its ▁ belongs to ▁a, which scores better.
  EXPECT_EQ(pieces(*tokenizer, "c a"), (Pieces{"▁", "c", "▁a"}));
  EXPECT_EQ(pieces(*tokenizer, "b a"), (Pieces{"▁", "b", "▁a"}));
  EXPECT_EQ(pieces(*tokenizer, "b c"), (Pieces{"▁", "b▁", "c"}));
}

// As in Hugging Face's tokenizer of Llama 2, where <unk> is a special token like <s>.
TEST(SpmTokenizer, TheUnknownTokenIsSpecialToo) {
  const auto tokenizer = create(spm_data());
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(pieces(*tokenizer, "<unk>ab", ParseSpecial::kYes), (Pieces{"<unk>", "▁ab"}));
  EXPECT_EQ(pieces(*tokenizer, "<unk>ab").front(), "▁");
}

TEST(SpmTokenizer, SpellsUnknownCharactersInBytes) {
  const auto tokenizer = create(spm_data());
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(pieces(*tokenizer, "aéß"), (Pieces{"▁a", "é", "<0xC3>", "<0x9F>"}));
  EXPECT_EQ(pieces(*tokenizer, "a\xFF"), (Pieces{"▁a", "<0xFF>"}));
}

TEST(SpmTokenizer, WithoutBytesARunOfUnknownsIsOneUnknown) {
  const auto tokenizer = create(spm_data(/*with_bytes=*/false));
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(pieces(*tokenizer, "aßxa"), (Pieces{"▁a", "<unk>", "a"}));
}

TEST(SpmTokenizer, SpaceFlags) {
  TokenizerData data = spm_data();
  data.add_space_prefix = false;
  EXPECT_EQ(pieces(*create(data), "ab"), (Pieces{"ab"}));
  data.remove_extra_whitespaces = true;
  EXPECT_EQ(pieces(*create(data), "  c   c  "), (Pieces{"c", "▁", "c"}));
  data.add_space_prefix = true;
  EXPECT_EQ(pieces(*create(data), "  c"), (Pieces{"▁", "c"}));
  EXPECT_EQ(pieces(*create(data), ""), Pieces{});
}

TEST(SpmTokenizer, ControlTokensOnlyWhereAllowedUserDefinedAlways) {
  const auto tokenizer = create(spm_data());
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(pieces(*tokenizer, "a</s>c<tag>b", ParseSpecial::kYes),
            (Pieces{"▁a", "</s>", "▁", "c", "<tag>", "b"}));
  const auto plain = pieces(*tokenizer, "a</s><tag>");
  EXPECT_EQ(std::count(plain.begin(), plain.end(), "</s>"), 0);
  EXPECT_EQ(plain.back(), "<tag>");
}

TEST(SpmTokenizer, TakesAwayTheSpaceItAdded) {
  const auto tokenizer = create(spm_data());
  ASSERT_TRUE(tokenizer);
  for (const std::string text : {"ab", " ab", "a  b ", ""}) {
    const auto ids = tokenizer->encode(text, ParseSpecial::kNo);
    ASSERT_TRUE(ids);
    EXPECT_EQ(decode(*tokenizer, tokenizer->with_bos(*ids)), text);
  }
  StreamDecoder continues(*tokenizer, /*show_special=*/false, /*continues=*/true);
  EXPECT_EQ(continues.push(259), " a");
}

TEST(SpmTokenizer, RefusesWhatCannotWork) {
  TokenizerData data = spm_data();
  data.scores.clear();
  EXPECT_FALSE(Tokenizer::create(data));
  data = spm_data();
  data.scores[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(Tokenizer::create(data));
  data = spm_data();
  data.kinds.pop_back();
  EXPECT_FALSE(Tokenizer::create(data));
  data = spm_data();
  data.bos = 100'000;
  EXPECT_FALSE(Tokenizer::create(data));
  data = spm_data();
  data.model = "bert";
  const auto unknown = Tokenizer::create(data);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("'bert'"), std::string::npos);
  EXPECT_FALSE(Tokenizer::create({}));
}

constexpr std::string_view kMerges[] = {"a b", "Ġ ab"};

TokenizerData bpe_data() {
  TokenizerData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  data.tokens = {"<|end|>", "a", "b", "Ġ", "ab", "Ġab", "Ã", "©", "1"};
  data.kinds.assign(data.tokens.size(), TokenKind::kNormal);
  data.kinds[0] = TokenKind::kControl;
  data.eos = 0;
  return data;
}

TEST(BpeTokenizer, MergesInOrder) {
  const auto tokenizer = create(bpe_data(), kMerges);
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(pieces(*tokenizer, "ab ab"), (Pieces{"ab", "Ġab"}));
  EXPECT_EQ(pieces(*tokenizer, "é"), (Pieces{"Ã", "©"}));
  EXPECT_EQ(pieces(*tokenizer, "a\xC3"), (Pieces{"a", "Ã"}));
  EXPECT_EQ(pieces(*tokenizer, "a<|end|>", ParseSpecial::kYes), (Pieces{"a", "<|end|>"}));
  EXPECT_EQ(pieces(*tokenizer, "a<|end|>"), (Pieces{"a"}));  // the others are no tokens here
  EXPECT_EQ(tokenizer->token_bytes(5, false), " ab");
  EXPECT_EQ(tokenizer->token_bytes(0, false), "");
  EXPECT_EQ(tokenizer->token_bytes(0, true), "<|end|>");
  EXPECT_EQ(tokenizer->token_bytes(-1, true), "");
  EXPECT_EQ(tokenizer->token_bytes(9, true), "");
  EXPECT_TRUE(tokenizer->is_end_of_generation(0));
}

// As for SentencePiece, and as control_tokens() has it.
TEST(BpeTokenizer, TheUnknownTokenIsSpecial) {
  TokenizerData data = bpe_data();
  data.pre = "llama-bpe";  // a piece that is a token needs no merges
  data.tokens.insert(data.tokens.end(), {"<", ">", "u", "n", "k", "unk"});
  data.kinds.resize(data.tokens.size(), TokenKind::kNormal);
  data.kinds.back() = TokenKind::kUnknown;
  const auto tokenizer = create(data, kMerges);
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(pieces(*tokenizer, "a<unk>b", ParseSpecial::kYes), (Pieces{"a", "<", "unk", ">", "b"}));
  EXPECT_EQ(pieces(*tokenizer, "a<unk>b"), (Pieces{"a", "<", "u", "n", "k", ">", "b"}));
  EXPECT_TRUE(tokenizer->control_tokens().occurs_in("unk"));
  const auto unk = static_cast<TokenId>(data.tokens.size() - 1);
  EXPECT_EQ(tokenizer->token_bytes(unk, false), "");
  EXPECT_EQ(tokenizer->token_bytes(unk, true), "unk");
}

TEST(BpeTokenizer, FindsTheLongestAddedTokenFirst) {
  TokenizerData data = bpe_data();
  const auto add = [&](const char* text, TokenKind kind) {
    data.tokens.emplace_back(text);
    data.kinds.push_back(kind);
  };
  add("ab1", TokenKind::kUserDefined);
  add("1a", TokenKind::kUserDefined);
  add("b1a", TokenKind::kControl);
  const auto tokenizer = create(data, kMerges);
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(pieces(*tokenizer, "ab1ab"), (Pieces{"ab1", "ab"}));
  EXPECT_EQ(pieces(*tokenizer, "bb1ab", ParseSpecial::kYes), (Pieces{"b", "b1a", "b"}));
  // As in Hugging Face's library the control token hides "1a", even as plain text.
  EXPECT_EQ(pieces(*tokenizer, "bb1ab"), (Pieces{"b", "b", "1", "ab"}));
  EXPECT_EQ(pieces(*tokenizer,
                   "a\xC3"
                   "1a\xC3"),
            (Pieces{"a", "Ã", "1a", "Ã"}));
}

TEST(BpeTokenizer, AnUnknownPreTokenizerIsRefusedByName) {
  TokenizerData data = bpe_data();
  data.pre = "nonsense-7";
  const auto unknown = Tokenizer::create(data, kMerges);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(unknown.error().message.find("'nonsense-7'"), std::string::npos);
  EXPECT_NE(unknown.error().message.find("smollm"), std::string::npos);
  data.pre.clear();
  const auto missing = Tokenizer::create(data, kMerges);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("no pre-tokenizer is named"), std::string::npos);
}

TEST(BpeTokenizer, BadMergesAreRefused) {
  for (const std::string_view merge : {"", "a", "a b c", " b", "a ", "a x", "b b", "Ġab Ġab"}) {
    TokenizerData data = bpe_data();
    const auto tokenizer = Tokenizer::create(data, {&merge, 1});
    ASSERT_FALSE(tokenizer) << merge;
    EXPECT_EQ(tokenizer.error().message.find("internal error"), std::string::npos)
        << tokenizer.error().message;
  }
  TokenizerData data = bpe_data();
  data.tokens[3] = "\xFF";
  EXPECT_FALSE(Tokenizer::create(data, kMerges));
}

TEST(Utf8, InvalidBytesAreReplacedAsPythonDoes) {
  // bytes.decode("utf-8", "replace") of CPython 3.11.
  const std::pair<std::string, std::string> cases[] = {
      {"abc", "abc"},
      {"\x80", "\uFFFD"},
      {"\xC0\xAF", "\uFFFD\uFFFD"},
      {"\xE2\x82", "\uFFFD"},
      {"\xE2\x82z", "\uFFFDz"},
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
      {"\xF0\x9F\x98\x80", "\U0001F600"},
      {"\xF0\x9F\x98z", "\uFFFDz"},
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\xE0\x80\x80", "\uFFFD\uFFFD\uFFFD"},
      {"\xF8\x88\x80\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(replace_invalid_utf8(bytes), text);
}

TEST(StreamDecoder, HoldsBackASplitCharacter) {
  const auto tokenizer = create(spm_data());
  ASSERT_TRUE(tokenizer);
  const auto byte = [](int b) { return static_cast<TokenId>(3 + b); };
  StreamDecoder decoder(*tokenizer);
  EXPECT_EQ(decoder.push(byte(0xF0)), "");
  EXPECT_EQ(decoder.push(byte(0x9F)), "");
  EXPECT_EQ(decoder.push(1), "");  // a control token in between shows nothing
  EXPECT_EQ(decoder.push(byte(0x98)), "");
  EXPECT_EQ(decoder.push(byte(0x80)), "\U0001F600");
  EXPECT_EQ(decoder.push(byte(0xE2)), "");
  EXPECT_EQ(decoder.push(byte('z')), "\uFFFDz");
  EXPECT_EQ(decoder.push(byte(0xC3)), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
}

}  // namespace
}  // namespace quire
