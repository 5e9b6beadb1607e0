#include "serve/openai/json_body.h"

#include <gtest/gtest.h>

#include <string>

namespace quire::openai {
namespace {

// Of a body that must be refused: the parameter it names, and what it says.
struct Refused {
  std::string param, message, code;
};
Refused refused(const std::string& body) {
  const auto parsed = parse_body(body);
  EXPECT_FALSE(parsed) << body.substr(0, 100);
  if (parsed) return {};
  EXPECT_EQ(parsed.error().http_status, 400);
  return {parsed.error().param, parsed.error().message, parsed.error().code};
}

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(JsonBody, AnObjectIsReadWithItsTypes) {
  const auto parsed =
      parse_body(R"( {"i": -3, "u": 18446744073709551615, "d": 0.5, "s": "\u00e9\ud83d\ude00",
                     "o": {"a": [true, null, ""]}} )");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->at("i").as_int64(), -3);
  EXPECT_EQ(parsed->at("u").as_uint64(), 18446744073709551615u);
  EXPECT_EQ(parsed->at("d").as_double(), 0.5);
  EXPECT_EQ(parsed->at("s").as_string(), "é😀");
  EXPECT_EQ(parsed->at("o").as_object().at("a").as_array().size(), 3u);
  EXPECT_TRUE(parse_body("{}"));
}

TEST(JsonBody, TextsLongerThanAParsersBufferAreWhole) {
  const std::string key(10'000, 'k');
  const std::string text(1'000'000, 't');
  const auto parsed = parse_body("{\"" + key + "\":\"" + text + "\\n\"}");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->at(key).as_string(), text + "\n");
  const auto twice = refused("{\"" + key + "\":1,\"" + key + "\":2}");
  EXPECT_EQ(twice.code, "duplicate_key");
  EXPECT_LT(twice.message.size(), 300u);
}

TEST(JsonBody, AKeyTwiceInOneObjectIsRefusedWhereverItIs) {
  EXPECT_EQ(refused(R"({"n":1,"n":1})").param, "n");
  EXPECT_EQ(refused(R"({"a":{"b":1,"\u0062":2}})").param, "a.b");
  EXPECT_EQ(refused(R"({"messages":[{"role":"user","role":"system"}]})").param, "messages.role");
  EXPECT_EQ(refused(R"({"n":1,"n":1})").code, "duplicate_key");
  // In two objects it is two keys.
  EXPECT_TRUE(parse_body(R"({"a":{"a":1},"b":[{"a":1},{"a":2}]})"));
}

TEST(JsonBody, WhatIsNoJsonNamesThePlace) {
  for (const char* body :
       {"", " ", "{", "{\"a\"}", "{\"a\":1,}", "{\"a\":01}", "{\"a\":'b'}", "{\"a\":1} x", "{} {}",
        "{\"a\":\"\n\"}", "{\"a\":+1}", "{\"a\":.5}", "{/**/}", "\xEF\xBB\xBF{}"}) {
    EXPECT_EQ(refused(body).code, "invalid_json") << body;
  }
  for (const char* number : {"NaN", "Infinity", "-Infinity", "nan"}) {
    const auto why = refused(fmt::format(R"({{"model":"m","temperature":{}}})", number));
    EXPECT_EQ(why.param, "temperature") << number;
  }
  EXPECT_EQ(refused(R"({"a":{"b":1},"c":x})").param, "c");
}

TEST(JsonBody, OnlyAnObjectIsABody) {
  for (const char* body : {"[]", "1", "null", "\"a\"", "true", "[{}]"})
    EXPECT_EQ(refused(body).code, "invalid_type") << body;
}

TEST(JsonBody, BytesThatAreNotUtf8AreRefused) {
  EXPECT_EQ(refused("{\"a\":\"\xFF\"}").param, "a");
  EXPECT_EQ(refused("{\"a\":\"\xC3\"}").param, "a");
  EXPECT_EQ(refused("{\"a\":\"\xED\xA0\x80\"}").param, "a");      // a surrogate
  EXPECT_EQ(refused("{\"a\":\"\xC4\xE3\xBA\xC3\"}").param, "a");  // GBK
  EXPECT_EQ(refused(R"({"a":"\ud800"})").param, "a");
  EXPECT_EQ(refused(R"({"a":"\ud800x"})").param, "a");
  EXPECT_EQ(refused(R"({"a":"\udc00"})").param, "a");
}

TEST(JsonBody, NestingAndKeysHaveLimits) {
  // The object around it is one level.
  EXPECT_TRUE(parse_body("{\"a\":" + nested(kMaxJsonDepth - 1) + "}"));
  EXPECT_NE(refused("{\"a\":" + nested(kMaxJsonDepth) + "}").message.find("64 levels"),
            std::string::npos);
  EXPECT_EQ(refused("{\"user\":" + nested(100'000) + "}").param, "user");
  EXPECT_EQ(refused("{\"a\":" + std::string(100'000, '[')).param, "a");

  const auto keys = [](std::size_t n) {
    std::string out = "{";
    for (std::size_t i = 0; i < n; ++i) out += fmt::format("{}\"{}\":1", i ? "," : "", i);
    return out + "}";
  };
  EXPECT_TRUE(parse_body(keys(kMaxJsonKeys)));
  EXPECT_NE(refused(keys(kMaxJsonKeys + 1)).message.find("1024 keys"), std::string::npos);
}

// Every way to cut a body short is refused: none is an end by accident.
TEST(JsonBody, ATruncatedBodyIsRefused) {
  const std::string body = R"({"a":[1,{"b":"\u00e9"}],"c":12.5e1,"d":true})";
  ASSERT_TRUE(parse_body(body));
  for (std::size_t n = 0; n < body.size(); ++n) refused(body.substr(0, n));
}

}  // namespace
}  // namespace quire::openai
