#include "text/utf8.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using Kind = Utf8Step::Kind;

// Unicode, table 3-7: the well-formed byte sequences.
TEST(Utf8, StepsFollowTheTableOfWellFormedBytes) {
  const std::pair<std::string_view, std::size_t> good[] = {
      {"a", 1},
      {"\xc3\xa9x", 2},
      {"\xe6\xbc\xa2", 3},
      {"\xf0\x9f\x98\x80", 4},
      {"\xf4\x8f\xbf\xbf", 4},  // U+10FFFF
      {std::string_view("\0", 1), 1},
  };
  for (const auto& [text, length] : good) {
    EXPECT_EQ(utf8_step(text).kind, Kind::kCharacter) << text;
    EXPECT_EQ(utf8_step(text).length, length) << text;
  }
  for (const char* bad :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc3(", "\xe0\x9f\xbf", "\xed\xa0\x80",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"})
    EXPECT_EQ(utf8_step(bad).kind, Kind::kInvalid) << bad;
  for (const std::string_view cut : {"\xc3", "\xe6\xbc", "\xf0\x9f\x98"}) {
    EXPECT_EQ(utf8_step(cut).kind, Kind::kIncomplete) << cut;
    EXPECT_EQ(utf8_step(cut).length, cut.size()) << cut;
  }
}

// Unicode, chapter 3.9, the examples of tables 3-8 and 3-11.
TEST(Utf8, ReplacesMaximalSubparts) {
  const std::string bad(kReplacementCharacter);
  EXPECT_EQ(replace_invalid_utf8("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"),
            bad + bad + bad + bad + bad + bad + bad + bad + "A");
  EXPECT_EQ(replace_invalid_utf8("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"),
            bad + bad + bad + bad + "A");
}

TEST(Utf8, ValidLengthEndsAtTheFirstBadByte) {
  EXPECT_EQ(valid_utf8_length(""), 0u);
  EXPECT_EQ(valid_utf8_length("caf\xc3\xa9"), 5u);
  EXPECT_EQ(valid_utf8_length("caf\xe9 and more"), 3u);
  EXPECT_EQ(valid_utf8_length("caf\xc3"), 3u);
}

}  // namespace
}  // namespace quire
