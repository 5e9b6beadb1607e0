#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>

#include "model/gguf.h"
#include "model/gguf_tokenizer.h"
#include "tests/text/token_oracle.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace quire {
namespace {

using testing::ExpectedIds;

/// Characters and pairs of every kind that pre-tokenizers tell apart.
constexpr std::string_view kUnits[] = {"a",
                                       "A",
                                       "7",
                                       " ",
                                       "\n",
                                       "\t",
                                       "\r\n",
                                       ".",
                                       "-",
                                       "é",
                                       "漢",
                                       "😀",
                                       "us",
                                       "ab ",
                                       "\xFF",
                                       "<",
                                       "\U0001F468\u200d\U0001F469",
                                       "\u0301",
                                       "<|im_start|>",
                                       "<unused1>"};

constexpr const char* kSmolLm = "SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr const char* kGemma = "gemma-3-270m.Q4_K_M.gguf";
constexpr std::size_t kLongRuns = 20;  // LONG_RUNS in tests/oracle/tokens_strings.py

/// `pre`: the pre-tokenizer to take instead of the model's own.
std::unique_ptr<Tokenizer> load(const char* model, std::string_view pre = {}) {
  const auto path = std::filesystem::path(QUIRE_MODELS) / model;
  auto file = GgufFile::open(path);
  if (!file) {
    ADD_FAILURE() << "this test needs the model " << path
                  << " (make test fetches it): " << file.error().message;
    return nullptr;
  }
  auto data = tokenizer_data_from_gguf(*file);
  if (!data) {
    ADD_FAILURE() << data.error().message;
    return nullptr;
  }
  if (!pre.empty()) data->pre = pre;
  auto tokenizer = build_tokenizer(*file, std::move(*data));
  if (!tokenizer) ADD_FAILURE() << tokenizer.error().message;
  return tokenizer ? std::move(*tokenizer) : nullptr;
}

const Tokenizer* tokenizer_of(const char* model) {
  static std::map<std::string, std::unique_ptr<Tokenizer>> loaded;
  auto& tokenizer = loaded[model];
  if (!tokenizer) tokenizer = load(model);
  return tokenizer.get();
}

std::vector<std::string> strings() {
  auto texts = testing::read_strings(std::filesystem::path(QUIRE_TEST_DATA) / "text/strings.bin");
  if (!texts) ADD_FAILURE() << texts.error().message;
  return texts ? std::move(*texts) : std::vector<std::string>{};
}

std::string bytes_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string out;
  for (const TokenId id : ids) out += tokenizer.token_bytes(id, /*show_special=*/true);
  return out;
}

/// The text without the bytes that the vocabulary has no token for: SmolLM2's lacks some, and
/// Hugging Face passes over them in silence.
std::string encodable(const Tokenizer& tokenizer, std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto ids = tokenizer.encode(std::string_view(&c, 1), ParseSpecial::kNo);
    if (ids && !ids->empty()) out.push_back(c);
  }
  return out;
}

/// Whether decoding gives the text back. SentencePiece has one sign for a space and for U+2581.
bool comes_back(const Tokenizer& tokenizer, std::string_view text,
                const std::vector<TokenId>& ids) {
  const bool ambiguous =
      tokenizer.data().model == "llama" && text.find("\xE2\x96\x81") != text.npos;
  const std::string bytes = bytes_of(tokenizer, ids);
  return ambiguous || bytes == text || bytes == encodable(tokenizer, text);
}

struct Model {
  const char* file;
  const char* ids;
};

void PrintTo(const Model& model, std::ostream* out) { *out << model.file; }

class RealTokenizer : public ::testing::TestWithParam<Model> {};

TEST_P(RealTokenizer, GivesTheIdsOfHuggingFace) {
  const Tokenizer* tokenizer = tokenizer_of(GetParam().file);
  ASSERT_TRUE(tokenizer);
  const auto texts = strings();
  const auto expected =
      testing::read_ids(std::filesystem::path(QUIRE_TEST_DATA) / "text" / GetParam().ids);
  ASSERT_TRUE(expected) << expected.error().message;
  ASSERT_GE(texts.size(), 20'000u);
  ASSERT_EQ(texts.size(), expected->size());
  int wrong = 0;
  for (std::size_t i = 0; i < texts.size() && wrong < 10; ++i) {
    for (const auto special : {ParseSpecial::kNo, ParseSpecial::kYes}) {
      const ExpectedIds& want = (*expected)[i];
      const auto ids = tokenizer->encode(texts[i], special);
      ASSERT_TRUE(ids) << ids.error().message;
      const bool same = *ids == (special == ParseSpecial::kYes ? want.special : want.plain);
      EXPECT_TRUE(same) << "string " << i << " (" << texts[i] << "), special tokens "
                        << (special == ParseSpecial::kYes ? "parsed" : "not parsed") << ": "
                        << ::testing::PrintToString(*ids) << " but Hugging Face gives "
                        << ::testing::PrintToString(special == ParseSpecial::kYes ? want.special
                                                                                  : want.plain);
      wrong += same ? 0 : 1;
    }
  }
}

TEST_P(RealTokenizer, NoControlTokenComesOutOfUserText) {
  const Tokenizer* tokenizer = tokenizer_of(GetParam().file);
  ASSERT_TRUE(tokenizer);
  const TokenizerData& data = tokenizer->data();
  for (std::size_t i = 0; i < data.tokens.size(); ++i) {
    if (data.kinds[i] != TokenKind::kControl) continue;
    const auto plain = tokenizer->encode(data.tokens[i], ParseSpecial::kNo);
    ASSERT_TRUE(plain);
    for (const TokenId id : *plain) {
      ASSERT_NE(data.kinds[static_cast<std::size_t>(id)], TokenKind::kControl) << data.tokens[i];
    }
    const auto special = tokenizer->encode(data.tokens[i], ParseSpecial::kYes);
    ASSERT_TRUE(special);
    EXPECT_EQ(*special, std::vector<TokenId>{static_cast<TokenId>(i)}) << data.tokens[i];
  }
}

TEST_P(RealTokenizer, BytesComeBack) {
  const Tokenizer* tokenizer = tokenizer_of(GetParam().file);
  ASSERT_TRUE(tokenizer);
  for (const std::string& text : strings()) {
    const auto ids = tokenizer->encode(text, ParseSpecial::kNo);
    ASSERT_TRUE(ids);
    ASSERT_TRUE(comes_back(*tokenizer, text, *ids)) << text;
  }
  // Letters, digits and white space have tokens everywhere.
  EXPECT_EQ(encodable(*tokenizer, "Ab 19\n\té漢"), "Ab 19\n\té漢");
}

TEST_P(RealTokenizer, AStreamIsValidUtf8AndSaysWhatTheBytesSay) {
  const Tokenizer* tokenizer = tokenizer_of(GetParam().file);
  ASSERT_TRUE(tokenizer);
  for (const std::string& text : strings()) {
    const auto ids = tokenizer->encode(text, ParseSpecial::kNo);
    ASSERT_TRUE(ids);
    StreamDecoder decoder(*tokenizer, /*show_special=*/true);
    std::string whole;
    for (const TokenId id : *ids) {
      const std::string part = decoder.push(id);
      ASSERT_EQ(replace_invalid_utf8(part), part);
      whole += part;
    }
    whole += decoder.finish();
    ASSERT_EQ(whole, replace_invalid_utf8(bytes_of(*tokenizer, *ids)));
  }
}

// A megabyte of one kind of character must neither overflow a stack nor take quadratic time; with
// quadratic time this test would run into the time limit of the whole suite.
TEST_P(RealTokenizer, AMegabyteOfOneKindOfCharacter) {
  const Tokenizer* tokenizer = tokenizer_of(GetParam().file);
  ASSERT_TRUE(tokenizer);
  for (const std::string_view unit : kUnits) {
    std::string text;
    while (text.size() < (1u << 20)) text += unit;
    const auto ids = tokenizer->encode(text, ParseSpecial::kYes);
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_TRUE(comes_back(*tokenizer, text, *ids)) << unit;
  }
}

TEST_P(RealTokenizer, AnyBytesAndAnyIdsAreSafe) {
  const Tokenizer* tokenizer = tokenizer_of(GetParam().file);
  ASSERT_TRUE(tokenizer);
  EXPECT_TRUE(rc::check("encoding takes any bytes", [&](const std::string& bytes) {
    for (const auto special : {ParseSpecial::kNo, ParseSpecial::kYes}) {
      const auto ids = tokenizer->encode(bytes, special);
      RC_ASSERT(ids.has_value());
      RC_ASSERT(comes_back(*tokenizer, bytes, *ids));
    }
  }));
  EXPECT_TRUE(rc::check("decoding takes any ids", [&](const std::vector<std::int32_t>& ids) {
    StreamDecoder decoder(*tokenizer);
    std::string text;
    for (const TokenId id : ids) {
      text += decoder.push(id);
      text += decoder.push(id & 0x3FFFF);
    }
    text += decoder.finish();
    RC_ASSERT(replace_invalid_utf8(text) == text);
  }));
}

INSTANTIATE_TEST_SUITE_P(Models, RealTokenizer,
                         ::testing::Values(Model{kSmolLm, "smollm2.ids"},
                                           Model{kGemma, "gemma3.ids"}),
                         [](const auto& model) { return model.index == 0 ? "SmolLM2" : "Gemma3"; });

TEST(PreTokenizers, GiveTheIdsOfHuggingFaceWithTheVocabularyOfSmolLm) {
  const auto expected =
      testing::read_hashes(std::filesystem::path(QUIRE_TEST_DATA) / "text/pre.hashes");
  ASSERT_TRUE(expected) << expected.error().message;
  ASSERT_EQ(expected->size(), 8u);
  const auto texts = strings();
  for (const auto& pre : *expected) {
    const auto tokenizer = load(kSmolLm, pre.name);
    ASSERT_TRUE(tokenizer);
    // Every so-manieth string, and the long runs at the end.
    const std::size_t n = pre.hashes.size();
    const std::size_t step = texts.size() / n;
    int wrong = 0;
    for (std::size_t i = 0; i < n && wrong < 5; ++i) {
      const std::size_t at = i < n - kLongRuns ? i * step : texts.size() - (n - i);
      const auto ids = tokenizer->encode(texts[at], ParseSpecial::kNo);
      ASSERT_TRUE(ids);
      const bool same = testing::hash_ids(*ids) == pre.hashes[i];
      EXPECT_TRUE(same) << pre.name << " differs on string " << at << ": " << texts[at];
      wrong += same ? 0 : 1;
    }
  }
}

// Recursive regular expressions of other engines overflow the stack from 26,000 characters on.
TEST(PreTokenizers, AQuarterMegabyteOfOneKindOfCharacter) {
  const auto names =
      testing::read_hashes(std::filesystem::path(QUIRE_TEST_DATA) / "text/pre.hashes");
  ASSERT_TRUE(names) << names.error().message;
  for (const auto& pre : *names) {
    const auto tokenizer = load(kSmolLm, pre.name);
    ASSERT_TRUE(tokenizer);
    for (const std::string_view unit : {"A", "é", "漢", " ", "\n", "us", "7", ".", "a1", "'s"}) {
      std::string text;
      while (text.size() < (1u << 18)) text += unit;
      const auto ids = tokenizer->encode(text, ParseSpecial::kNo);
      ASSERT_TRUE(ids) << pre.name << ": " << ids.error().message;
      EXPECT_TRUE(comes_back(*tokenizer, text, *ids)) << pre.name << unit;
    }
  }
}

TEST(EndOfGeneration, IsKnownForBothModels) {
  const Tokenizer* smol = tokenizer_of(kSmolLm);
  ASSERT_TRUE(smol);
  EXPECT_TRUE(smol->is_end_of_generation(2));   // <|im_end|>
  EXPECT_TRUE(smol->is_end_of_generation(0));   // <|endoftext|>
  EXPECT_FALSE(smol->is_end_of_generation(1));  // <|im_start|>
  const Tokenizer* gemma = tokenizer_of(kGemma);
  ASSERT_TRUE(gemma);
  EXPECT_TRUE(gemma->is_end_of_generation(1));     // <eos>
  EXPECT_TRUE(gemma->is_end_of_generation(106));   // <end_of_turn>
  EXPECT_FALSE(gemma->is_end_of_generation(105));  // <start_of_turn>
  EXPECT_FALSE(gemma->is_end_of_generation(-1));
}

TEST(Bos, StandsInFrontOnce) {
  const Tokenizer* gemma = tokenizer_of(kGemma);
  ASSERT_TRUE(gemma);
  const auto raw = gemma->encode("Hello", ParseSpecial::kYes);
  const auto with = gemma->encode("<bos>Hello", ParseSpecial::kYes);
  ASSERT_TRUE(raw && with);
  EXPECT_EQ(gemma->with_bos(*raw), *with);
  EXPECT_EQ(gemma->with_bos(*with), *with);
  EXPECT_EQ(gemma->with_bos({}), std::vector<TokenId>{2});
  const Tokenizer* smol = tokenizer_of(kSmolLm);
  ASSERT_TRUE(smol);
  EXPECT_EQ(smol->with_bos({5}), std::vector<TokenId>{5});  // the file says: no BOS
}

}  // namespace
}  // namespace quire
