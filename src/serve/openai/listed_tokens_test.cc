#include "serve/openai/listed_tokens.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <limits>

#include "serve/openai/openai_testing.h"

namespace quire::openai {
namespace {

namespace json = boost::json;
using testing::ByteTokenizer;
using testing::sampled;

std::vector<SampledToken> spelled(std::string_view text) {
  std::vector<SampledToken> out;
  for (const char c : text) out.push_back(sampled(static_cast<unsigned char>(c)));
  return out;
}

// Texts of the listed tokens, with the offset of each: "a0 b1".
std::string listed(const std::vector<ListedToken>& tokens) {
  const ByteTokenizer tokenizer;
  std::string out;
  for (const ListedToken& token : tokens) {
    out +=
        fmt::format("{}{:02x}@{}", out.empty() ? "" : " ", token.sampled.token, token.text_offset);
  }
  return out;
}

TEST(TokenTrail, TokensComeWithTheirText) {
  const ByteTokenizer tokenizer;
  TokenTrail trail(tokenizer, false);
  EXPECT_EQ(listed(trail.push(spelled("a"), "a")), "61@0");
  // Held back, then given out with what follows.
  EXPECT_EQ(listed(trail.push(spelled("b"), "")), "");
  EXPECT_EQ(listed(trail.push(spelled("c"), "bc")), "62@1 63@2");
  EXPECT_EQ(listed(trail.finish()), "");
}

TEST(TokenTrail, TheTokensOfAStopStringAreNotListed) {
  const ByteTokenizer tokenizer;
  TokenTrail trail(tokenizer, false);
  // "xabc" with the stop string "ab": x is text, a and b are held back and then dropped.
  EXPECT_EQ(listed(trail.push(spelled("x"), "x")), "78@0");
  EXPECT_EQ(listed(trail.push(spelled("a"), "")), "");
  EXPECT_EQ(listed(trail.push(spelled("b"), "")), "");
}

TEST(TokenTrail, BytesOfACharacterShareItsPlace) {
  const ByteTokenizer tokenizer;
  TokenTrail trail(tokenizer, false);
  EXPECT_EQ(listed(trail.push(spelled("\xC3\xA9"), "é")), "c3@0 a9@0");
  EXPECT_EQ(listed(trail.push(spelled("\xF0"), "")), "");
  EXPECT_EQ(listed(trail.push(spelled("\x9F\x98\x80"), "😀")), "f0@1 9f@1 98@1 80@1");
  EXPECT_EQ(listed(trail.push(spelled("!"), "!")), "21@2");
  // Cut in the middle of a character: its text is the replacement character, which comes last.
  EXPECT_EQ(listed(trail.push(spelled("\xE2\x82"), "")), "");
  EXPECT_EQ(listed(trail.push({}, "\xEF\xBF\xBD")), "e2@3 82@3");
}

TEST(TokenTrail, TheTokenThatEndsAnAnswerIsNoPartOfIt) {
  const ByteTokenizer tokenizer;
  TokenTrail trail(tokenizer, false);
  std::vector<SampledToken> tokens = spelled("a");
  tokens.push_back(sampled(ByteTokenizer::kEnd));
  EXPECT_EQ(listed(trail.push(tokens, "a")), "61@0");
  EXPECT_EQ(listed(trail.finish()), "");

  TokenTrail ignoring(tokenizer, true);
  EXPECT_EQ(listed(ignoring.push(tokens, "a")), "61@0");
  EXPECT_EQ(listed(ignoring.finish()), "101@1");
}

TEST(TokenLists, AreJsonWithExactBytes) {
  const ByteTokenizer tokenizer;
  const std::vector<ListedToken> tokens = {
      {sampled('"', -0.5f, {{'"', -0.5f}, {0xE9, -2.0f}}), 0},
      {sampled(0xC3, 0.0f, {{'a', -std::numeric_limits<float>::infinity()}}), 1}};
  EXPECT_EQ(json::parse(token_list_json(tokens, tokenizer)),
            json::parse(R"([{"token":"\"","logprob":-0.5,"bytes":[34],"top_logprobs":[
                {"token":"\"","logprob":-0.5,"bytes":[34]},
                {"token":"\ufffd","logprob":-2.0,"bytes":[233]}]},
              {"token":"\ufffd","logprob":0.0,"bytes":[195],"top_logprobs":[
                {"token":"a","logprob":-9999.0,"bytes":[97]}]}])"));
  EXPECT_EQ(token_list_json({}, tokenizer), "[]");
}

TEST(TokenLists, OfCompletionsHaveTheSampledTokenAmongTheOthers) {
  const ByteTokenizer tokenizer;
  const std::vector<ListedToken> tokens = {
      {sampled('a', -3.0f, {{'b', -0.5f}, {'c', -2.0f}}), 0},
      {sampled('b', -0.25f, {{'b', -0.25f}, {'c', -2.0f}}), 1},
      {sampled(0xE9, -4.0f, {{0xC3, -0.25f}, {0xC4, -2.0f}}), 2}};
  EXPECT_EQ(json::parse(completion_logprobs_json(tokens, 10, true, tokenizer)),
            json::parse(R"({"tokens":["a","b","\ufffd"],"token_logprobs":[-3.0,-0.25,-4.0],
                "top_logprobs":[{"b":-0.5,"c":-2.0,"a":-3.0},{"b":-0.25,"c":-2.0},{"\ufffd":-0.25}],
                "text_offset":[10,11,12]})"));
  EXPECT_EQ(json::parse(completion_logprobs_json({}, 0, false, tokenizer)),
            json::parse(R"({"tokens":[],"token_logprobs":[],"top_logprobs":null,
                            "text_offset":[]})"));
}

TEST(TokenLists, NumbersLookLikeDecimals) {
  const auto text = [](float x) {
    std::string out;
    append_json(out, x);
    return out;
  };
  EXPECT_EQ(text(0.0f), "0.0");
  EXPECT_EQ(text(-1.0f), "-1.0");
  EXPECT_EQ(text(-0.1f), "-0.1");
  EXPECT_EQ(text(-1e20f), "-1e+20");
  for (const float x : {-1.17549435e-38f, -3.40282347e+38f, -0.333333343f, -12.3456789f})
    EXPECT_EQ(static_cast<float>(json::parse(text(x)).as_double()), x);
}

}  // namespace
}  // namespace quire::openai
