#include "serve/openai/json_reader.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "serve/openai/json_body.h"

namespace quire::openai {
namespace {

namespace json = boost::json;

constexpr auto kMin64 = std::numeric_limits<std::int64_t>::min();
constexpr auto kMax64 = std::numeric_limits<std::int64_t>::max();

// The code of the error that reading {"x": text} gives; empty for none.
template <typename Read>
std::string code_of(const std::string& text, const Read& read) {
  const auto object = parse_body("{\"x\":" + text + "}");
  EXPECT_TRUE(object) << text;
  if (!object) return {};
  FirstError error;
  FieldReader fields(*object, "", error);
  read(fields);
  if (!error.failed()) return {};
  EXPECT_EQ(error.error().param, "x") << text;
  EXPECT_EQ(error.error().http_status, 400);
  return error.error().code;
}

TEST(JsonReader, IntegersHaveATypeAndARange) {
  const auto small = [](FieldReader& fields) { fields.integer("x", 1, 16); };
  for (const char* good : {"1", "16", "2.0", "1.6e1", "null"}) EXPECT_EQ(code_of(good, small), "");
  for (const char* bad : {"0.01", "\"3\"", "true", "[]", "{}", "-0.5"})
    EXPECT_EQ(code_of(bad, small), "invalid_type") << bad;
  for (const char* bad : {"17", "9223372036854775807", "9223372036854775808",
                          "18446744073709551616", "1e30", "1e400"})
    EXPECT_EQ(code_of(bad, small), "integer_above_max_value") << bad;
  for (const char* bad : {"0", "-1", "-9223372036854775808", "-1e30", "-1e400", "-0.0"})
    EXPECT_EQ(code_of(bad, small), "integer_below_min_value") << bad;

  const auto all = [](FieldReader& fields) { fields.integer("x", kMin64, kMax64); };
  for (const char* good : {"9223372036854775807", "-9223372036854775808", "-9.2e18"})
    EXPECT_EQ(code_of(good, all), "") << good;
  for (const char* bad : {"9223372036854775808", "9.223372036854775808e18"})
    EXPECT_EQ(code_of(bad, all), "integer_above_max_value") << bad;
  for (const char* bad : {"-9223372036854777856", "-9223372036854775809"})
    EXPECT_EQ(code_of(bad, all), "integer_below_min_value") << bad;
}

TEST(JsonReader, DecimalsHaveATypeAndARange) {
  const auto read = [](FieldReader& fields) { fields.number("x", 0, 2); };
  for (const char* good : {"0", "2", "0.7", "2.0", "1e-400", "-0.0", "null"})
    EXPECT_EQ(code_of(good, read), "") << good;
  for (const char* bad : {"\"1\"", "false", "[1]", "{}"})
    EXPECT_EQ(code_of(bad, read), "invalid_type") << bad;
  for (const char* bad : {"2.0000001", "3", "1e400", "18446744073709551615"})
    EXPECT_EQ(code_of(bad, read), "decimal_above_max_value") << bad;
  for (const char* bad : {"-0.0000001", "-1", "-1e400"})
    EXPECT_EQ(code_of(bad, read), "decimal_below_min_value") << bad;

  FirstError error;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(to_number(json::value(nan), "x", 0, 2, error));
  EXPECT_TRUE(error.failed());
}

TEST(JsonReader, OtherTypesAreNotGuessed) {
  const auto boolean = [](FieldReader& fields) { fields.boolean("x"); };
  const auto text = [](FieldReader& fields) { fields.text("x"); };
  const auto array = [](FieldReader& fields) { fields.array("x"); };
  const auto object = [](FieldReader& fields) { fields.object("x"); };
  const auto word = [](FieldReader& fields) { fields.word("x", {"auto", "none"}); };
  for (const char* bad : {"0", "1", "\"true\"", "[]"})
    EXPECT_EQ(code_of(bad, boolean), "invalid_type");
  for (const char* bad : {"0", "true", "[]", "{}"}) EXPECT_EQ(code_of(bad, text), "invalid_type");
  for (const char* bad : {"0", "\"\"", "{}"}) EXPECT_EQ(code_of(bad, array), "invalid_type");
  for (const char* bad : {"0", "\"\"", "[]"}) EXPECT_EQ(code_of(bad, object), "invalid_type");
  EXPECT_EQ(code_of("1", word), "invalid_type");
  EXPECT_EQ(code_of("\"AUTO\"", word), "invalid_value");
  EXPECT_EQ(code_of("\"auto\"", word), "");
}

TEST(JsonReader, RequiredIsNeitherAbsentNorNull) {
  EXPECT_EQ(code_of("null", [](FieldReader& fields) { fields.require("x"); }), "invalid_type");
  EXPECT_EQ(code_of("0", [](FieldReader& fields) { fields.require("x"); }), "");
  const json::object empty;
  FirstError error;
  FieldReader(empty, "a[2]", error).require("x");
  ASSERT_TRUE(error.failed());
  EXPECT_EQ(error.error().code, "missing_required_parameter");
  EXPECT_EQ(error.error().param, "a[2].x");
}

TEST(JsonReader, WhatNobodyReadIsRefused) {
  const json::object object{{"a", 1}, {"b", 2}};
  FirstError error;
  FieldReader fields(object, "options", error);
  fields.integer("a", 0, 5);
  fields.done();
  ASSERT_TRUE(error.failed());
  EXPECT_EQ(error.error().code, "unknown_parameter");
  EXPECT_EQ(error.error().param, "options.b");
}

TEST(JsonReader, IgnoredFieldsKeepTheirTypes) {
  EXPECT_EQ(code_of("1", [](FieldReader& f) { f.ignore("x", JsonKind::kText); }), "invalid_type");
  EXPECT_EQ(code_of("\"u\"", [](FieldReader& f) { f.ignore("x", JsonKind::kText); }), "");
  EXPECT_EQ(code_of("[]", [](FieldReader& f) { f.ignore("x", JsonKind::kObject); }),
            "invalid_type");
  EXPECT_EQ(code_of("1", [](FieldReader& f) { f.refuse("x", "why"); }), "unsupported_parameter");
  EXPECT_EQ(code_of("null", [](FieldReader& f) { f.refuse("x", "why"); }), "");
}

TEST(JsonReader, TheFirstErrorStays) {
  FirstError error;
  const json::object object{{"a", "1"}, {"b", "2"}};
  FieldReader fields(object, "", error);
  fields.integer("a", 0, 5);
  fields.integer("b", 0, 5);
  ASSERT_TRUE(error.failed());
  EXPECT_EQ(error.error().param, "a");
}

TEST(JsonReader, AClientsWordsAreCutAtACharacter) {
  EXPECT_EQ(shown("short"), "short");
  const std::string long_text = std::string(63, 'x') + "é" + std::string(100, 'y');
  EXPECT_EQ(shown(long_text), std::string(63, 'x') + "…");
}

}  // namespace
}  // namespace quire::openai
