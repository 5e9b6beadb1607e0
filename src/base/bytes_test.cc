#include "base/bytes.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Bytes, ParsesWhatPeopleWrite) {
  EXPECT_EQ(parse_byte_size("0").value(), 0u);
  EXPECT_EQ(parse_byte_size("1000").value(), 1000u);
  EXPECT_EQ(parse_byte_size("64k").value(), 65536u);
  EXPECT_EQ(parse_byte_size("512MiB").value(), 536870912u);
  EXPECT_EQ(parse_byte_size("512 MB").value(), 512000000u);
  EXPECT_EQ(parse_byte_size("1.5GiB").value(), 1610612736u);
}

TEST(Bytes, RefusesWhatIsNoSize) {
  for (const char* text :
       {"", "MiB", "-1", "1XB", "12 parsecs", "nan", "inf", "1e300", "9999999TiB", "1e3"})
    EXPECT_FALSE(parse_byte_size(text).has_value()) << text;
}

TEST(Bytes, Formats) {
  EXPECT_EQ(format_byte_size(17), "17 B");
  EXPECT_EQ(format_byte_size(1536), "1.5 KiB");
  EXPECT_EQ(format_byte_size(536870912), "512.0 MiB");
}

}  // namespace
}  // namespace quire
