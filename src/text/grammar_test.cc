#include "text/grammar.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace quire {
namespace {

/// Tokens of one byte each, one of two, and an end.
std::unique_ptr<Tokenizer> tokenizer() {
  TokenizerData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  data.tokens = {"<|end|>"};
  for (char c = '!'; c <= '~'; ++c) data.tokens.push_back(std::string(1, c));
  data.tokens.insert(data.tokens.end(), {"Ġ", "12", "{\"", "ab"});
  data.kinds.assign(data.tokens.size(), TokenKind::kNormal);
  data.kinds[0] = TokenKind::kControl;
  data.eos = 0;
  auto created = Tokenizer::create(std::move(data));
  EXPECT_TRUE(created) << created.error().message;
  return std::move(*created);
}

GrammarCompiler compiler(const Tokenizer& tokens) {
  auto created = GrammarCompiler::create(tokens);
  EXPECT_TRUE(created) << created.error().message;
  return std::move(*created);
}

/// The texts of what may come next; "" is the end.
std::vector<std::string> next(Grammar& grammar, const Tokenizer& tokens) {
  std::vector<std::string> out;
  const auto bits = grammar.allowed();
  EXPECT_TRUE(bits) << bits.error().message;
  for (std::size_t i = 0; bits && i < bits->size() * 32; ++i)
    if (((*bits)[i / 32] >> (i % 32) & 1) != 0)
      out.push_back(tokens.token_bytes(static_cast<TokenId>(i), false));
  return out;
}

void accept_text(Grammar& grammar, const Tokenizer& tokens, const std::string& text) {
  for (const char c : text) {
    const auto ids = tokens.encode(std::string(1, c), ParseSpecial::kNo);
    ASSERT_TRUE(ids);
    ASSERT_TRUE(grammar.accept(ids->front())) << c;
  }
}

using Texts = std::vector<std::string>;

TEST(Grammar, ARegularExpressionTokenByToken) {
  const auto tokens = tokenizer();
  auto grammar = compiler(*tokens).compile(GrammarKind::kRegex, "(12|1a)b?");
  ASSERT_TRUE(grammar) << grammar.error().message;
  EXPECT_EQ(next(*grammar, *tokens), (Texts{"1", "12"}));
  auto other = grammar->fork();
  ASSERT_TRUE(other);
  accept_text(*grammar, *tokens, "1");
  EXPECT_EQ(next(*grammar, *tokens), (Texts{"2", "a", "ab"}));
  accept_text(*grammar, *tokens, "2");
  EXPECT_EQ(next(*grammar, *tokens), (Texts{"", "b"}));
  EXPECT_FALSE(grammar->complete());
  accept_text(*grammar, *tokens, "b");
  EXPECT_EQ(next(*grammar, *tokens), (Texts{""}));
  EXPECT_EQ(next(*other, *tokens), (Texts{"1", "12"}));  // on its own
}

TEST(Grammar, AJsonSchema) {
  const auto tokens = tokenizer();
  auto grammar = compiler(*tokens).compile(
      GrammarKind::kJsonSchema,
      R"({"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"],
          "additionalProperties": false})");
  ASSERT_TRUE(grammar) << grammar.error().message;
  EXPECT_EQ(next(*grammar, *tokens), (Texts{"{", "{\""}));
  accept_text(*grammar, *tokens, "{\"a\":1}");
  EXPECT_EQ(next(*grammar, *tokens), (Texts{""}));
}

// A model that has begun with blanks may never find out of them.
TEST(Grammar, WhiteSpaceOfJsonComesToAnEnd) {
  const auto tokens = tokenizer();
  auto grammar = compiler(*tokens).compile(GrammarKind::kJsonSchema,
                                           R"({"type":"array","items":{"enum":[1]}})");
  ASSERT_TRUE(grammar) << grammar.error().message;
  accept_text(*grammar, *tokens, "[");
  const auto space = tokens->encode(" ", ParseSpecial::kNo);
  ASSERT_TRUE(space);
  std::size_t n = 0;
  while (n < 1000 && grammar->accept(space->front())) ++n;
  EXPECT_GE(n, 8u);
  EXPECT_LE(n, 100u);
}

TEST(Grammar, Lark) {
  const auto tokens = tokenizer();
  auto grammar = compiler(*tokens).compile(GrammarKind::kLark, "start: \"a\" (\"+\" \"a\")*");
  ASSERT_TRUE(grammar) << grammar.error().message;
  accept_text(*grammar, *tokens, "a");
  EXPECT_EQ(next(*grammar, *tokens), (Texts{"", "+"}));
}

TEST(Grammar, WhatIsNotAllowedIsNotAccepted) {
  const auto tokens = tokenizer();
  auto grammar = compiler(*tokens).compile(GrammarKind::kRegex, "a+");
  ASSERT_TRUE(grammar);
  const auto b = tokens->encode("b", ParseSpecial::kNo);
  ASSERT_TRUE(b);
  const auto refused = grammar->accept(b->front());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message.find('\n'), std::string::npos);
}

TEST(Grammar, BadAndHostileSourcesAreOneSentence) {
  const auto tokens = tokenizer();
  const GrammarCompiler compile = compiler(*tokens);
  std::string deep = R"({"type":"string"})";
  for (int i = 0; i < 2000; ++i) deep = R"({"type":"array","items":)" + deep + "}";
  const std::pair<GrammarKind, std::string> sources[] = {
      {GrammarKind::kJsonSchema, "{"},
      {GrammarKind::kJsonSchema, "[]"},
      {GrammarKind::kJsonSchema, R"({"type": "nonsense"})"},
      {GrammarKind::kJsonSchema, R"({"$ref": "#/missing"})"},
      {GrammarKind::kJsonSchema, R"({"type": "string", "pattern": "("})"},
      {GrammarKind::kJsonSchema, deep},
      {GrammarKind::kJsonSchema, std::string(300'000, ' ')},
      {GrammarKind::kRegex, "("},
      {GrammarKind::kLark, "start: missing"},
      {GrammarKind::kLark, ""},
      {GrammarKind::kLark, std::string("\xff\xfe")},
  };
  for (const auto& [kind, source] : sources) {
    const auto grammar = compile.compile(kind, source);
    if (grammar) {
      ADD_FAILURE() << source.substr(0, 60) << " is taken";
      continue;
    }
    EXPECT_FALSE(grammar.error().message.empty());
    EXPECT_EQ(grammar.error().message.find('\n'), std::string::npos) << grammar.error().message;
    EXPECT_LT(grammar.error().message.size(), 1000u) << grammar.error().message;
  }
}

// Each step of these may be refused for what it costs; none may take for ever or crash.
TEST(Grammar, AnExpensiveOneIsFollowedOrGivenUp) {
  const auto tokens = tokenizer();
  const GrammarCompiler compile = compiler(*tokens);
  std::string many = R"({"enum":[0)";
  for (int i = 1; i < 20'000; ++i) many += "," + std::to_string(i);
  const std::pair<GrammarKind, std::string> sources[] = {
      {GrammarKind::kRegex, "(a{1000}){1000}b{1000}"},
      {GrammarKind::kRegex, "(.*a.{40})|(.*b.{50}c)|(a|aa|aaa)*"},
      {GrammarKind::kJsonSchema, many + "]}"},
      {GrammarKind::kJsonSchema, R"({"type":"string","pattern":"^(([a-z])+.)+[A-Z]([a-z])+$"})"},
      {GrammarKind::kLark, "start: start start | \"a\" | \"b\""},
  };
  for (const auto& [kind, source] : sources) {
    auto grammar = compile.compile(kind, source);
    if (!grammar) continue;
    for (int step = 0; step < 100; ++step) {
      const auto bits = grammar->allowed();
      if (!bits) break;
      TokenId first = 1;  // not the end
      while (first / 32 < std::ssize(*bits) && ((*bits)[first / 32] >> (first % 32) & 1) == 0)
        ++first;
      if (first / 32 >= std::ssize(*bits) || !grammar->accept(first)) break;
    }
  }
}

TEST(Grammar, AVocabularyWithoutAnEndIsRefused) {
  TokenizerData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  data.tokens = {"a", "b"};
  const auto tokens = Tokenizer::create(std::move(data));
  ASSERT_TRUE(tokens);
  EXPECT_FALSE(GrammarCompiler::create(**tokens));
}

}  // namespace
}  // namespace quire
