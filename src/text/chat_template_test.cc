#include "text/chat_template.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "text/utf8.h"

namespace quire {
namespace {

const std::filesystem::path kData = std::filesystem::path(QUIRE_TEST_DATA) / "text";

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The template rendered without messages.
Result<std::string> render(std::string_view text, std::string_view context = "{\"messages\":[]}") {
  auto parsed = ChatTemplate::parse(text, "<BOS>", "<EOS>");
  if (!parsed) return fail(parsed.error());
  return parsed->render_json(context);
}

void expect_one_sentence(const Error& error) {
  EXPECT_FALSE(error.message.empty());
  EXPECT_LT(error.message.size(), 500u) << error.message;
  EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
}

TEST(ChatTemplate, RendersWhatTransformersRenders) {
  const boost::json::value cases = boost::json::parse(read_file(kData / "templates.json"));
  std::map<std::string, ChatTemplate> templates;
  std::size_t n_refused = 0;
  for (const auto& item : cases.as_array()) {
    const std::string name(item.at("template").as_string());
    const std::string chat(item.at("chat").as_string());
    if (!templates.contains(name)) {
      auto parsed = ChatTemplate::parse(read_file(kData / "templates" / name), "<BOS>", "<EOS>");
      ASSERT_TRUE(parsed) << name << ": " << parsed.error().message;
      templates.emplace(name, std::move(*parsed));
    }
    const auto text = templates.at(name).render_json(boost::json::serialize(item.at("context")));
    const std::string where = name + ", " + chat;
    if (item.at("text").is_null()) {
      ++n_refused;
      EXPECT_FALSE(text) << where << " is refused by transformers, here it gives " << *text;
      if (!text) expect_one_sentence(text.error());
    } else {
      ASSERT_TRUE(text) << where << ": " << text.error().message;
      EXPECT_EQ(*text, std::string_view(item.at("text").as_string())) << where;
    }
  }
  EXPECT_GE(templates.size(), 10u);
  EXPECT_GE(n_refused, 50u);
}

TEST(ChatTemplate, MessagesAndJsonAreTheSame) {
  auto parsed = ChatTemplate::parse(read_file(kData / "templates/smollm2.jinja"), "", "");
  ASSERT_TRUE(parsed);
  const ChatMessage messages[] = {{"system", "S \"quoted\" \n"}, {"user", "漢\x01"}};
  const auto direct = parsed->render(messages, true);
  const auto json = parsed->render_json(
      R"({"messages":[{"role":"system","content":"S \"quoted\" \n"},)"
      R"({"role":"user","content":"\u6f22\u0001"}],"add_generation_prompt":true})");
  ASSERT_TRUE(direct && json);
  EXPECT_EQ(*direct, *json);
  EXPECT_TRUE(direct->ends_with("<|im_start|>assistant\n"));
}

TEST(ChatTemplate, BytesThatAreNoUtf8BecomeReplacementCharacters) {
  auto parsed = ChatTemplate::parse("{{ messages[0].content }}", "", "");
  ASSERT_TRUE(parsed);
  const ChatMessage message{"user", "a\xFFz\xE2\x82"};
  const auto text = parsed->render({&message, 1}, false);
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "a\uFFFDz\uFFFD");
}

TEST(ChatTemplate, PassesOnWhatTheTemplateRaises) {
  const auto text = render("{{ raise_exception('Roles must alternate.') }}");
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().message.find("Roles must alternate."), std::string::npos)
      << text.error().message;
}

TEST(ChatTemplate, KnowsTheDate) {
  const auto year = render("{{ strftime_now('%Y') }}");
  ASSERT_TRUE(year);
  EXPECT_EQ(year->size(), 4u);
  EXPECT_GE(*year, "2024");
}

TEST(ChatTemplate, ReadsNoOtherTemplate) {
  for (const char* source :
       {"{% include '/etc/passwd' %}", "{% import 'x' as y %}", "{% extends 'chat template' %}"}) {
    const auto text = render(source);
    ASSERT_FALSE(text) << source << " gives " << *text;
    expect_one_sentence(text.error());
  }
}

TEST(ChatTemplate, WhatIsNoTemplateIsRefused) {
  for (const char* source : {"{% if %}", "{{ ", "{% endfor %}", "{% for x in %}", "{{ a b }}", "{%",
                             "{% unknown_tag %}", "{{ 'unclosed }}", "\xFF\xFE", "{% raw %}",
                             "{% generation %}", "{% macro %}{% endmacro %}"}) {
    const auto parsed = ChatTemplate::parse(source, "", "");
    ASSERT_FALSE(parsed) << source;
    expect_one_sentence(parsed.error());
  }
}

TEST(ChatTemplate, WhatIsNoContextIsRefused) {
  for (const char* context : {"", "[]", "1", "{", "{\"a\":}", "\xFF"}) {
    const auto text = render("x", context);
    ASSERT_FALSE(text) << context;
    expect_one_sentence(text.error());
  }
}

struct Hostile {
  const char* what;
  std::string source;
};

std::string repeat(std::string_view text, std::size_t n) {
  std::string out;
  out.reserve(text.size() * n);
  for (std::size_t i = 0; i < n; ++i) out += text;
  return out;
}

// Each of these would otherwise run for ever, overflow the stack, or eat all memory.
TEST(ChatTemplate, HostileTemplatesEndInAnError) {
  const Hostile cases[] = {
      {"nested loops",
       "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}"
       "{% endfor %}{% endfor %}{% endfor %}"},
      {"endless range", "{% for a in range(10**9) %}x{% endfor %}"},
      {"long string", "{{ 'a' * 10**9 }}"},
      {"long output", "{% for a in range(90000) %}{{ 'a' * 100000 }}{% endfor %}"},
      {"doubling by concatenation",
       "{% set n = namespace(s='aaaaaaaa') %}{% for i in range(64) %}{% set n.s = n.s ~ n.s %}"
       "{% endfor %}{{ n.s | length }}"},
      {"doubling by addition",
       "{% set n = namespace(s='aaaaaaaa') %}{% for i in range(64) %}{% set n.s = n.s + n.s %}"
       "{% endfor %}{{ n.s | length }}"},
      {"doubling by capture",
       "{% set n = namespace(s='aaaaaaaa') %}{% for i in range(64) %}{% set s %}{{ n.s }}{{ n.s }}"
       "{% endset %}{% set n.s = s %}{% endfor %}{{ n.s | length }}"},
      {"doubling lists",
       "{% set n = namespace(s=[1]) %}{% for i in range(64) %}{% set n.s = (n.s + n.s) | list %}"
       "{% endfor %}{{ n.s | length }}"},
      {"replacing", "{{ ('a' * 999999) | replace('a', 'a' * 999999) | length }}"},
      {"indenting", "{{ ('a\n' * 99999) | indent(99999) | length }}"},
      {"long list", "{{ ([1] * 10**12) | list | length }}"},
      {"endless sum", "{{ ([1] * 10**15) | sum }}"},
      {"wide format", "{{ '%2000000000d' | format(1) | length }}"},
      {"wide JSON", "{{ [[1]] | tojson(indent=10**9) }}"},
      {"endless recursion of a macro", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"},
      {"two macros in a circle",
       "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}"},
      {"recursive loop", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"},
      {"deep parentheses", "{{ " + repeat("(", 30000) + "1" + repeat(")", 30000) + " }}"},
      {"deep lists", "{{ " + repeat("[", 30000) + repeat("]", 30000) + " }}"},
      {"deep blocks", repeat("{% if true %}", 2500) + repeat("{% endif %}", 2500)},
      {"constants computed over and over", "{{ " + repeat("2**", 20000) + "2 }}"},
      {"a huge source", repeat("{{ 1 }}", 1'000'000)},
  };
  for (const Hostile& hostile : cases) {
    const auto text = render(hostile.source);
    ASSERT_FALSE(text) << hostile.what << " gives " << text->size() << " bytes";
    expect_one_sentence(text.error());
  }
}

TEST(ChatTemplate, MemoryGrowsWithTheMessages) {
  // 32 MB of text out of nothing: too much for a greeting, a small part of what a book may take.
  const auto parsed = ChatTemplate::parse(
      "{% set n = namespace(s='a' * 1000000) %}{% for i in range(5) %}{% set n.s = n.s ~ n.s %}"
      "{% endfor %}{{ n.s | length }}",
      "", "");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const std::vector<ChatMessage> book = {{"user", std::string(4'000'000, 'b')}};
  const auto with_book = parsed->render(book, true);
  ASSERT_TRUE(with_book) << with_book.error().message;
  EXPECT_EQ(*with_book, "32000000");
  const std::vector<ChatMessage> greeting = {{"user", "Hi"}};
  const auto with_greeting = parsed->render(greeting, true);
  ASSERT_FALSE(with_greeting);
  EXPECT_NE(with_greeting.error().message.find("bytes of memory"), std::string::npos);
}

TEST(ChatTemplate, WhatItRaisesIsCutShort) {
  const auto text = render("{{ raise_exception('long ' * 10000) }}");
  ASSERT_FALSE(text);
  EXPECT_LT(text.error().message.size(), 500u);
  EXPECT_NE(text.error().message.find("long long"), std::string::npos);
}

// Whether these give a text or an error is the engine's business; they must give one of the two.
TEST(ChatTemplate, DeepExpressionsAreSafe) {
  const std::pair<const char*, const char*> chains[] = {{"{{ ", "not "},
                                                        {"{{ 1", "+1"},
                                                        {"{{ 1", "~1"},
                                                        {"{{ a", ".a"},
                                                        {"{{ a", "[0]"},
                                                        {"{{ 1", "|e"},
                                                        {"{{ ", "- "},
                                                        {"{{ 1", "*1"},
                                                        {"{{ 1", "<1"},
                                                        {"{{ a", "()"},
                                                        {"{{ 1", "**1"},
                                                        {"{{ 1", " or 1"},
                                                        {"{{ 1", " if 1 else 1"},
                                                        {"{{ 1", " is odd"},
                                                        {"{% set x = [1] %}", "{% set x = [x] %}"},
                                                        {"", "{% set x = [[[[[x]]]]] %}"}};
  for (const auto& [start, link] : chains) {
    std::string source = start + repeat(link, 60'000 / std::string_view(link).size());
    if (source.starts_with("{{")) source += std::string_view(link).ends_with(' ') ? "1 }}" : " }}";
    const auto text = render(source + "{{ x == [x] }}");
    if (!text) expect_one_sentence(text.error());
  }
}

TEST(ChatTemplate, DeepDataEndsInAnErrorOrIsPrinted) {
  // A list that contains itself many levels deep would overflow a naive printer.
  const auto text = render(
      "{% set n = namespace(v=[]) %}{% for i in range(90000) %}{% set n.v = [n.v] %}{% endfor %}"
      "{{ n.v }}{{ n.v | tojson }}");
  ASSERT_FALSE(text) << text->size();
  expect_one_sentence(text.error());
  const auto context =
      render("{{ v }}", "{\"v\":" + repeat("[", 100000) + repeat("]", 100000) + "}");
  ASSERT_FALSE(context);
  expect_one_sentence(context.error());
}

TEST(ChatTemplate, AnUnrulyTemplateIsNotRunForEver) {
  auto parsed = ChatTemplate::parse(
      "{% set n = namespace(s='aaaaaaaa') %}{% for i in range(64) %}{% set n.s = n.s ~ n.s %}"
      "{% endfor %}",
      "", "");
  ASSERT_TRUE(parsed);
  for (const char* why :
       {"bytes of memory", "bytes of memory", "bytes of memory", "stays refused"}) {
    const auto text = parsed->render({}, false);
    ASSERT_FALSE(text);
    EXPECT_NE(text.error().message.find(why), std::string::npos) << text.error().message;
  }
}

// The engine computes constants while it parses.
TEST(ChatTemplate, ATemplateMayNotBeLargerThanItsText) {
  const auto parsed = ChatTemplate::parse("{{ 'a' * 100000000 }}", "", "");
  ASSERT_FALSE(parsed);
  expect_one_sentence(parsed.error());
  EXPECT_NE(parsed.error().message.find("bytes of memory"), std::string::npos);
}

TEST(ChatTemplate, LongConversationsAreFine) {
  auto parsed = ChatTemplate::parse(read_file(kData / "templates/qwen2.5.jinja"), "", "");
  ASSERT_TRUE(parsed);
  std::vector<ChatMessage> messages;
  for (int i = 0; i < 5000; ++i) {
    messages.push_back({i % 2 == 0 ? "user" : "assistant", repeat("some words ", 100)});
  }
  const auto text = parsed->render(messages, true);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_GT(text->size(), 5'000'000u);
}

TEST(ChatTemplate, AnyBytesAreSafe) {
  EXPECT_TRUE(rc::check("templates of any bytes", [](const std::string& bytes) {
    const auto text = render("{{" + bytes + "}}{%" + bytes);
    if (text) RC_ASSERT(replace_invalid_utf8(*text) == *text);
  }));
  const auto piece = rc::gen::elementOf(std::vector<std::string>{"{{",
                                                                 "}}",
                                                                 "{%",
                                                                 "%}",
                                                                 " if ",
                                                                 " else ",
                                                                 " endif ",
                                                                 " for x in ",
                                                                 " endfor ",
                                                                 " set x = ",
                                                                 "messages",
                                                                 "x",
                                                                 "[0]",
                                                                 "|",
                                                                 "tojson",
                                                                 "trim",
                                                                 "(",
                                                                 ")",
                                                                 "'a'",
                                                                 "1",
                                                                 "+",
                                                                 "~",
                                                                 "*",
                                                                 "namespace",
                                                                 "-",
                                                                 "generation",
                                                                 "endgeneration",
                                                                 ".items()",
                                                                 "loop.index",
                                                                 "\n",
                                                                 " ",
                                                                 "raise_exception",
                                                                 "{#",
                                                                 "#}",
                                                                 " is defined ",
                                                                 "break",
                                                                 "continue",
                                                                 "macro m(a)",
                                                                 "endmacro",
                                                                 "m(1)"});
  EXPECT_TRUE(rc::check("templates of any pieces", [&] {
    std::string source;
    for (const auto& p : *rc::gen::container<std::vector<std::string>>(piece)) source += p;
    const auto text = render(source, "{\"messages\":[{\"role\":\"user\",\"content\":\"c\"}]}");
    if (!text) RC_ASSERT(!text.error().message.empty());
  }));
}

}  // namespace
}  // namespace quire
