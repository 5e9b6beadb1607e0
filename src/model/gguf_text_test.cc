#include "model/gguf_text.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

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
