// Every field of every request: what is not of its type and range is refused by its name.

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <string>
#include <vector>

#include "serve/openai/requests.h"

namespace quire::openai {
namespace {

namespace json = boost::json;
using Texts = std::vector<std::string>;

enum class Kind { kNumber, kInteger, kBoolean, kText, kWord, kObject, kArray, kStop };

struct Field {
  const char* name;
  Kind kind;
  Texts good;  // JSON texts
  Texts bad;   // of the right type, out of range
};

// JSON texts that are of no use for a field of that kind.
Texts wrong_types(Kind kind) {
  const Texts all = {"\"text\"", "12", "0.5", "true", "[]", "{}", "[{}]", "[[1]]"};
  Texts out;
  for (const std::string& text : all) {
    const auto type = json::parse(text).kind();
    const bool is_number = type == json::kind::int64 || type == json::kind::double_;
    const bool right =
        (kind == Kind::kNumber && is_number) ||
        (kind == Kind::kInteger && type == json::kind::int64) ||
        (kind == Kind::kBoolean && type == json::kind::bool_) ||
        ((kind == Kind::kText || kind == Kind::kStop) && type == json::kind::string) ||
        (kind == Kind::kStop && text == "[]") ||
        (kind == Kind::kObject && type == json::kind::object) ||
        (kind == Kind::kArray && type == json::kind::array);
    if (!right) out.push_back(text);
  }
  return out;
}

// What is out of range for every field of that kind.
Texts out_of_range(Kind kind) {
  switch (kind) {
    case Kind::kNumber:
      return {"1e400", "-1e400", "1e9", "-1e9", "9223372036854775808"};
    case Kind::kInteger:
      return {"1e400", "-1e400", "9223372036854775808", "18446744073709551616", "1e30"};
    case Kind::kWord:
      return {"\"unheard-of\"", "\"\""};
    default:
      return {};
  }
}

std::vector<Field> sampling_fields() {
  return {{"model", Kind::kText, {"\"m\""}, {}},
          {"temperature", Kind::kNumber, {"0", "2", "0.7"}, {"-0.1", "2.1"}},
          {"top_p", Kind::kNumber, {"0", "1", "0.9"}, {"-0.1", "1.1"}},
          {"min_p", Kind::kNumber, {"0", "1"}, {"-0.1", "1.1"}},
          {"top_k", Kind::kInteger, {"-1", "0", "40", "2147483647"}, {"-2", "2147483648"}},
          {"presence_penalty", Kind::kNumber, {"-2", "2"}, {"-2.1", "2.1"}},
          {"frequency_penalty", Kind::kNumber, {"-2", "2"}, {"-2.1", "2.1"}},
          {"repetition_penalty", Kind::kNumber, {"0.01", "1.3"}, {"0", "-1", "101"}},
          {"repeat_penalty", Kind::kNumber, {"0.01", "1.3"}, {"0", "-1", "101"}},
          {"seed", Kind::kInteger, {"0", "-1", "9223372036854775807", "-9223372036854775808"}, {}},
          {"logit_bias", Kind::kObject, {"{}", "{\"5\":-100}", "{\"0\":1.5}"}, {}},
          {"ignore_eos", Kind::kBoolean, {"true", "false"}, {}},
          {"priority", Kind::kInteger, {"-2147483648", "2147483647"}, {"2147483648"}},
          {"cache_salt", Kind::kText, {"\"salt\""}, {"\"\""}},
          {"use_beam_search", Kind::kBoolean, {"false"}, {"true"}},
          {"stream", Kind::kBoolean, {"true", "false"}, {}},
          {"user", Kind::kText, {"\"u\""}, {}},
          {"safety_identifier", Kind::kText, {"\"u\""}, {}},
          {"metadata", Kind::kObject, {"{\"a\":\"b\"}"}, {}},
          {"store", Kind::kBoolean, {"true", "false"}, {}},
          {"service_tier", Kind::kWord, {"\"auto\"", "\"default\""}, {}},
          {"prompt_cache_key", Kind::kText, {"\"k\""}, {}}};
}

std::vector<Field> choice_fields() {
  return {{"n", Kind::kInteger, {"1", "16"}, {"0", "-1", "17"}},
          {"best_of", Kind::kInteger, {"1", "16"}, {"0", "-1", "17"}},
          {"stop", Kind::kStop, {"\"a\"", "[]", "[\"a\",\"b\"]"}, {"\"\""}},
          {"stream_options", Kind::kObject, {}, {"{\"include_usage\":true}"}}};
}

using Parse = std::string (*)(const std::string& body);  // the error's parameter; "" if taken

template <auto parse>
std::string parameter_at_fault(const std::string& body) {
  const auto request = parse(body, RequestOptions{});
  if (request) return "";
  EXPECT_EQ(request.error().http_status, 400) << body;
  EXPECT_EQ(request.error().type, "invalid_request_error");
  EXPECT_FALSE(request.error().code.empty());
  EXPECT_FALSE(request.error().message.empty());
  return request.error().param.empty() ? "(none)" : request.error().param;
}

// `base`: members that are required, with a comma behind them.
void check_fields(const std::vector<Field>& fields, const std::string& base, Parse parse) {
  for (const Field& field : fields) {
    const auto outcome = [&](const std::string& value) {
      return parse(fmt::format("{{{}\"{}\":{}}}", base, field.name, value));
    };
    for (const std::string& value : field.good)
      EXPECT_EQ(outcome(value), "") << field.name << value;
    EXPECT_EQ(outcome("null"), "") << field.name;
    Texts bad = field.bad;
    for (const auto& more : {wrong_types(field.kind), out_of_range(field.kind), Texts{"NaN"}})
      bad.insert(bad.end(), more.begin(), more.end());
    for (const std::string& value : bad) {
      // Of an entry of an array it may be the entry that is named.
      EXPECT_TRUE(outcome(value).starts_with(field.name))
          << field.name << " = " << value << " names '" << outcome(value) << "'";
    }
    // Twice is wrong even where both are right.
    EXPECT_EQ(outcome(fmt::format("null,\"{}\":null", field.name)), field.name);
  }
  EXPECT_EQ(parse("{" + base + "\"tempreature\":1}"), "tempreature");
  EXPECT_EQ(parse("{" + base + "\"user\":null}"), "");
}

std::vector<Field> operator+(std::vector<Field> a, const std::vector<Field>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(RequestFields, Chat) {
  const std::vector<Field> own = {
      {"max_tokens", Kind::kInteger, {"1", "1000000"}, {"0", "-1", "1000001", "1000000000"}},
      {"max_completion_tokens", Kind::kInteger, {"1"}, {"0", "-1", "1000000000"}},
      {"logprobs", Kind::kBoolean, {"true", "false"}, {}},
      {"top_logprobs", Kind::kInteger, {}, {"-1", "21", "5"}},  // 5: without logprobs
      {"response_format",
       Kind::kObject,
       {"{\"type\":\"text\"}"},
       {"{\"type\":\"json_object\"}", "{\"type\":\"xml\"}", "{\"type\":null}"}},
      {"regex", Kind::kText, {}, {"\"a+\"", "\"\""}},
      {"grammar", Kind::kText, {}, {"\"start: A\"", "\"\""}},
      {"tools", Kind::kArray, {"[]"}, {}},
      {"tool_choice", Kind::kWord, {"\"none\"", "\"auto\""}, {"\"required\""}},
      {"parallel_tool_calls", Kind::kBoolean, {"true", "false"}, {}},
      {"modalities", Kind::kArray, {"[\"text\"]"}, {"[\"text\",\"audio\"]"}}};
  check_fields(sampling_fields() + choice_fields() + own,
               R"("messages":[{"role":"user","content":"hi"}],)", parameter_at_fault<parse_chat>);
}

TEST(RequestFields, Completions) {
  const std::vector<Field> own = {
      {"max_tokens", Kind::kInteger, {"1", "1000000"}, {"0", "-1", "1000000000"}},
      {"logprobs", Kind::kInteger, {"0", "5"}, {"-1", "6"}},
      {"echo", Kind::kBoolean, {"true", "false"}, {}},
      {"suffix", Kind::kText, {"\"\""}, {"\"after\""}}};
  check_fields(sampling_fields() + choice_fields() + own, R"("prompt":"hi",)",
               parameter_at_fault<parse_completion>);
}

TEST(RequestFields, Responses) {
  const std::vector<Field> own = {
      {"instructions", Kind::kText, {"\"be brief\""}, {}},
      {"max_output_tokens", Kind::kInteger, {"1"}, {"0", "-1", "1000000000"}},
      {"top_logprobs", Kind::kInteger, {"0", "20"}, {"-1", "21"}},
      {"include",
       Kind::kArray,
       {"[]", "[\"message.output_text.logprobs\"]"},
       {"[\"reasoning.encrypted_content\"]", "[1]"}},
      {"text",
       Kind::kObject,
       {"{}", "{\"format\":{\"type\":\"text\"}}"},
       {"{\"verbosity\":\"low\"}"}},
      {"background", Kind::kBoolean, {"false"}, {"true"}},
      {"truncation", Kind::kWord, {"\"disabled\""}, {"\"auto\""}},
      {"tools", Kind::kArray, {"[]"}, {"[{\"type\":\"web_search\"}]"}},
      {"stream_options", Kind::kObject, {"{\"include_obfuscation\":false}"}, {"{\"x\":1}"}}};
  // Empty is fine for an array of these.
  check_fields(sampling_fields() + own, R"("input":"hi",)", parameter_at_fault<parse_responses>);
}

TEST(RequestFields, Embeddings) {
  check_fields({{"model", Kind::kText, {"\"m\""}, {}},
                {"encoding_format", Kind::kWord, {"\"float\"", "\"base64\""}, {}},
                {"dimensions", Kind::kInteger, {"1", "64"}, {"0", "-1"}},
                {"user", Kind::kText, {"\"u\""}, {}}},
               R"("input":"hi",)", parameter_at_fault<parse_embedding>);
}

TEST(RequestFields, TokenizeAndDetokenize) {
  check_fields({{"model", Kind::kText, {"\"m\""}, {}},
                {"add_special_tokens", Kind::kBoolean, {"true", "false"}, {}},
                {"return_token_strs", Kind::kBoolean, {"true", "false"}, {}}},
               // An unknown field is what the last lines of the check send.
               R"("prompt":"hi",)", [](const std::string& body) {
                 if (body.find("\"user\"") != std::string::npos) return std::string();
                 return parameter_at_fault<parse_tokenize>(body);
               });
  const auto detokenize = parameter_at_fault<parse_detokenize>;
  EXPECT_EQ(detokenize(R"({"tokens":[1,2,3]})"), "");
  EXPECT_EQ(detokenize(R"({"tokens":[]})"), "");
  EXPECT_EQ(detokenize(R"({})"), "tokens");
  EXPECT_EQ(detokenize(R"({"tokens":null})"), "tokens");
  EXPECT_EQ(detokenize(R"({"tokens":"1"})"), "tokens");
  EXPECT_EQ(detokenize(R"({"tokens":[1,-1]})"), "tokens[1]");
  EXPECT_EQ(detokenize(R"({"tokens":[1,2.5]})"), "tokens[1]");
  EXPECT_EQ(detokenize(R"({"tokens":[2147483648]})"), "tokens[0]");
}

TEST(RequestFields, RequiredFields) {
  for (const char* messages :
       {"", "\"messages\":null", "\"messages\":[]", "\"messages\":\"hi\"", "\"messages\":{}"})
    EXPECT_EQ(parameter_at_fault<parse_chat>(fmt::format("{{{}}}", messages)), "messages");
  for (const char* prompt :
       {"", "\"prompt\":null", "\"prompt\":[]", "\"prompt\":3", "\"prompt\":{}"})
    EXPECT_EQ(parameter_at_fault<parse_completion>(fmt::format("{{{}}}", prompt)), "prompt");
  for (const char* input : {"", "\"input\":null", "\"input\":[]", "\"input\":3"}) {
    EXPECT_EQ(parameter_at_fault<parse_embedding>(fmt::format("{{{}}}", input)), "input");
    EXPECT_EQ(parameter_at_fault<parse_responses>(fmt::format("{{{}}}", input)), "input");
  }
  EXPECT_EQ(parameter_at_fault<parse_tokenize>("{}"), "prompt");
}

TEST(RequestFields, EntriesAreNamedByTheirPlace) {
  const auto chat = [](const std::string& rest) {
    return parameter_at_fault<parse_chat>(R"({"messages":[{"role":"user","content":"hi"}],)" +
                                          rest + "}");
  };
  EXPECT_EQ(chat(R"("stop":["a",3])"), "stop[1]");
  EXPECT_EQ(chat(R"("stop":["a",""])"), "stop[1]");
  EXPECT_EQ(chat(R"("stop":["a",null])"), "stop[1]");
  EXPECT_EQ(chat(R"("logit_bias":{"5":101})"), "logit_bias.5");
  EXPECT_EQ(chat(R"("logit_bias":{"5":"x"})"), "logit_bias.5");
  EXPECT_EQ(chat(R"("logit_bias":{"5":null})"), "logit_bias.5");
  for (const char* key : {"x", "", "-1", "05", "5 ", "2147483648", "1.0"})
    EXPECT_EQ(chat(fmt::format(R"("logit_bias":{{"{}":1}})", key)), "logit_bias") << key;
  EXPECT_EQ(chat(R"("stream":true,"stream_options":{"include_usage":1})"),
            "stream_options.include_usage");
  EXPECT_EQ(chat(R"("stream":true,"stream_options":{"usage":true})"), "stream_options.usage");

  const auto completion = [](const std::string& prompt) {
    return parameter_at_fault<parse_completion>("{\"prompt\":" + prompt + "}");
  };
  EXPECT_EQ(completion(R"(["a",3])"), "prompt[1]");
  EXPECT_EQ(completion(R"([1,"a"])"), "prompt[1]");
  EXPECT_EQ(completion(R"([1,-2])"), "prompt[1]");
  EXPECT_EQ(completion(R"([1.5])"), "prompt[0]");
  EXPECT_EQ(completion(R"([[1],[2,true]])"), "prompt[1][1]");
  EXPECT_EQ(completion(R"([[1],[]])"), "prompt[1]");
  EXPECT_EQ(completion(R"([null])"), "prompt[0]");
}

TEST(RequestFields, NumbersOfThingsHaveLimits) {
  const auto chat = [](const std::string& rest) {
    return parameter_at_fault<parse_chat>(R"({"messages":[{"role":"user","content":"hi"}],)" +
                                          rest + "}");
  };
  const auto list = [](std::size_t n, const std::string& item) {
    std::string out = "[";
    for (std::size_t i = 0; i < n; ++i) out += (i ? "," : "") + item;
    return out + "]";
  };
  EXPECT_EQ(chat("\"stop\":" + list(16, "\"a\"")), "");
  EXPECT_EQ(chat("\"stop\":" + list(17, "\"a\"")), "stop");
  EXPECT_EQ(chat("\"stop\":\"" + std::string(1024, 'a') + "\""), "");
  EXPECT_EQ(chat("\"stop\":\"" + std::string(1025, 'a') + "\""), "stop");
  EXPECT_EQ(chat("\"cache_salt\":\"" + std::string(257, 'a') + "\""), "cache_salt");
  EXPECT_EQ(chat("\"n\":3,\"best_of\":2"), "best_of");
  EXPECT_EQ(chat("\"n\":2,\"best_of\":3"), "");
  EXPECT_EQ(chat("\"n\":2,\"best_of\":3,\"stream\":true"), "best_of");
  const auto completion = [](const std::string& rest) {
    return parameter_at_fault<parse_completion>("{" + rest + "}");
  };
  EXPECT_EQ(completion("\"prompt\":" + list(64, "\"a\"")), "");
  EXPECT_EQ(completion("\"prompt\":" + list(65, "\"a\"")), "prompt");
  EXPECT_EQ(completion("\"n\":2,\"prompt\":" + list(64, "[1]")), "");
  EXPECT_EQ(completion("\"n\":3,\"prompt\":" + list(64, "[1]")), "n");
}

}  // namespace
}  // namespace quire::openai
