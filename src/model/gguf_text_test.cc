#include "model/gguf_text.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(GgufText, CharLengthFollowsTheUnicodeTableOfWellFormedBytes) {
  EXPECT_EQ(utf8_char_length(""), 0u);
  EXPECT_EQ(utf8_char_length("a"), 1u);
  EXPECT_EQ(utf8_char_length("\xc3\xa9x"), 2u);
  EXPECT_EQ(utf8_char_length("\xe6\xbc\xa2"), 3u);
  EXPECT_EQ(utf8_char_length("\xf0\x9f\x98\x80"), 4u);
  EXPECT_EQ(utf8_char_length("\xf4\x8f\xbf\xbf"), 4u);  // U+10FFFF
  for (const char* bad : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3(", "\xe0\x9f\xbf",
                          "\xed\xa0\x80", "\xe6\xbc", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80", "\xff", "\xf0\x9f\x98"})
    EXPECT_EQ(utf8_char_length(bad), 0u) << bad;
}

TEST(GgufText, PrintableKeepsTextAndEscapesTheRest) {
  EXPECT_EQ(printable("caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80"),
            "caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("\x1b[31mred\n\x7f"), "\\x1b[31mred\\x0a\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");  // C1 control
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "abc"),
            "\\xe2\\x80\\xae"
            "abc");  // right-to-left override
  EXPECT_EQ(printable("a\xff"
                      "b"),
            "a\\xff"
            "b");
  EXPECT_EQ(printable(std::string(50, 'x'), 10), std::string(10, 'x') + "...");
}

TEST(GgufText, PlainMeansValidAndWithoutControls) {
  EXPECT_TRUE(is_plain_utf8("llama.block_count"));
  EXPECT_TRUE(is_plain_utf8("caf\xc3\xa9"));
  EXPECT_FALSE(is_plain_utf8("a\tb"));
  EXPECT_FALSE(is_plain_utf8(std::string_view("a\0b", 3)));
  EXPECT_FALSE(is_plain_utf8("a\xc3"));
  EXPECT_FALSE(is_plain_utf8("\xc2\x85"));
  EXPECT_FALSE(is_plain_utf8("\xe2\x80\xae"));
}

}  // namespace
}  // namespace quire
