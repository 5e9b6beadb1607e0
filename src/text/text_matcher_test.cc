#include "text/text_matcher.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

namespace quire {
namespace {

TextMatcher matcher(const std::vector<std::string>& texts) {
  std::vector<TextMatcher::Entry> entries;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    entries.push_back({texts[i], static_cast<TokenId>(i)});
  }
  return TextMatcher(std::move(entries));
}

// "id@begin" of each.
std::string show(const TextMatcher& m, std::string_view text) {
  std::string out;
  for (const auto& [begin, match] : m.split(text)) {
    out += fmt::format("{}{}@{}", out.empty() ? "" : " ", match.id, begin);
  }
  return out;
}

TEST(TextMatcher, TheLongestAtTheLeftmostPlaceCounts) {
  const auto m = matcher({"ab", "abcd", "bc", "d", "", "ab", "\xff\x01"});
  EXPECT_EQ(show(m, "abcd"), "1@0");
  EXPECT_EQ(show(m, "abce"), "0@0");
  EXPECT_EQ(show(m, "xbcd"), "2@1 3@3");
  EXPECT_EQ(show(m, "ababc\xff\x01"), "0@0 0@2 6@5");
  EXPECT_EQ(show(m, ""), "");
  EXPECT_EQ(show(TextMatcher(), "abc"), "");
  EXPECT_EQ(show(matcher({""}), "abc"), "");
  EXPECT_TRUE(m.occurs_in("xxd"));
  EXPECT_FALSE(m.occurs_in("xxa"));
}

TEST(TextMatcher, FindsWhatLookingEverywhereFinds) {
  EXPECT_TRUE(rc::check([] {
    const auto letters = [](std::size_t n) {
      return rc::gen::resize(static_cast<int>(n),
                             rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c')));
    };
    const auto texts = *rc::gen::container<std::vector<std::string>>(letters(6));
    const auto text = *letters(60);
    const auto found = matcher(texts).all(text);
    RC_ASSERT(found.size() == text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
      std::size_t best = 0, id = 0;
      for (std::size_t k = 0; k < texts.size(); ++k) {
        if (texts[k].size() > best && text.compare(i, texts[k].size(), texts[k]) == 0) {
          best = texts[k].size();
          id = k;
        }
      }
      RC_ASSERT(found[i].length == best);
      if (best > 0) RC_ASSERT(found[i].id == static_cast<TokenId>(id));
    }
  }));
}

// Every place in these texts could be the beginning of 3000 strings, or has been that of 3000: a
// search that starts anew at each of them takes 10^10 steps and does not come back in time.
TEST(TextMatcher, NestedStringsTakeNoLonger) {
  std::vector<std::string> texts;
  for (std::size_t i = 1; i <= 3000; ++i) {
    texts.push_back(std::string(i, 'a') + "!");
    texts.push_back(fmt::format("?{}", std::string(i, 'a')));
  }
  const auto m = matcher(texts);
  const std::string text(4'000'000, 'a');
  EXPECT_FALSE(m.occurs_in(text));
  EXPECT_EQ(m.split(text + "!").size(), 1u);
  EXPECT_EQ(m.split("?" + text).size(), 1u);
}

}  // namespace
}  // namespace quire
