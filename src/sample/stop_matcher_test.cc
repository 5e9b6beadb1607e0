#include "sample/stop_matcher.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace quire {
namespace {

StopMatcher make(std::vector<std::string> stops) {
  auto matcher = StopMatcher::create(std::move(stops));
  EXPECT_TRUE(matcher) << matcher.error().message;
  return std::move(*matcher);
}

TEST(StopMatcher, WithoutStopsTextPassesThrough) {
  auto matcher = make({});
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_EQ(matcher.finish(), "");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, HoldsBackWhatCouldBecomeAStopString) {
  auto matcher = make({"END"});
  EXPECT_EQ(matcher.push("the E"), "the ");
  EXPECT_EQ(matcher.push("N"), "");
  EXPECT_EQ(matcher.push("Ergy"), "ENErgy");
  EXPECT_EQ(matcher.push(" E"), " ");
  EXPECT_EQ(matcher.finish(), "E");
}

TEST(StopMatcher, AStopStringMaySpanPiecesAndEndsTheText) {
  auto matcher = make({"END"});
  EXPECT_EQ(matcher.push("x EN"), "x ");
  EXPECT_EQ(matcher.push("D and more"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.matched(), "END");
  EXPECT_EQ(matcher.push("later"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, FindsAMatchThatBeginsInsideAFailedOne) {
  auto matcher = make({"aab"});
  EXPECT_EQ(matcher.push("aaa"), "a");
  EXPECT_EQ(matcher.push("b"), "");
  EXPECT_TRUE(matcher.stopped());
}

TEST(StopMatcher, TheFirstCompleteStopWinsAndOfEqualsTheLongest) {
  auto first = make({"abcd", "c"});
  EXPECT_EQ(first.push("xabcd"), "xab");
  EXPECT_EQ(first.matched(), "c");
  auto longest = make({"c", "abc", "bc"});
  EXPECT_EQ(longest.push("xabc"), "x");
  EXPECT_EQ(longest.matched(), "abc");
}

TEST(StopMatcher, NeverCutsACharacter) {
  auto matcher = make({"é!", "日本語"});
  EXPECT_EQ(matcher.push("café"), "caf");
  EXPECT_EQ(matcher.push("s 日本"), "és ");
  EXPECT_EQ(matcher.push("人"), "日本人");
  EXPECT_EQ(matcher.push("日本語"), "");
  EXPECT_TRUE(matcher.stopped());
}

TEST(StopMatcher, RefusesEmptyAndInvalidStops) {
  EXPECT_FALSE(StopMatcher::create({"a", ""}));
  for (const char* bad :
       {"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\x80"}) {
    EXPECT_FALSE(StopMatcher::create({bad})) << bad;
  }
  EXPECT_TRUE(StopMatcher::create({"\xf0\x9f\x98\x80", "\xed\x9f\xbf", "\xef\xbf\xbf"}));
}

// Oracle: search the whole text with std::string::find.
struct Expected {
  std::string text;
  bool stopped;
};
Expected search(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const auto& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

TEST(StopMatcher, HowTheTextIsCutMakesNoDifference) {
  EXPECT_TRUE(rc::check("pieces give what a search of the whole text gives", [] {
    const auto letters = rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c'));
    const auto stops = *rc::gen::container<std::vector<std::string>>(rc::gen::nonEmpty(letters));
    const auto pieces = *rc::gen::container<std::vector<std::string>>(letters);
    auto matcher = make(stops);
    std::string whole, out;
    for (const auto& piece : pieces) {
      whole += piece;
      out += matcher.push(piece);
      // What is held back is never more than a stop string could still need.
      const auto so_far = search(whole, stops);
      if (!so_far.stopped) RC_ASSERT(whole.starts_with(out));
    }
    out += matcher.finish();
    const auto expected = search(whole, stops);
    RC_ASSERT(out == expected.text);
    RC_ASSERT(matcher.stopped() == expected.stopped);
  }));
}

}  // namespace
}  // namespace quire
