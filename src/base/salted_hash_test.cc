#include "base/salted_hash.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace quire {
namespace {

TEST(SaltedHash, IsSipHash13) {
  // Of the reference program with one and three rounds and the paper's key, 00 01 ... 0f; the first
  // is among the test vectors of Rust's standard library.
  const std::uint64_t key[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
  std::string fifteen;
  for (char c = 0; c < 15; ++c) fifteen.push_back(c);
  const std::pair<std::string, std::uint64_t> vectors[] = {
      {"", 0xabac0158050fc4dcu},      {"a", 0x1c2697ab786a6237u},
      {"pages", 0x624591f3df262ddau}, {"12345678", 0x11a8ebb5cd0da9ceu},
      {fifteen, 0xd320d86d2a519956u}, {"the quick brown fox jumps over", 0xee13bfe943dcb521u},
  };
  for (const auto& [text, hash] : vectors) EXPECT_EQ(sip_hash_1_3(key, text), hash) << text;
}

TEST(SaltedHash, IsTheSameWithinAProcess) {
  EXPECT_EQ(salted_hash("abc"), salted_hash(std::string("abc")));
  EXPECT_NE(salted_hash("abc"), salted_hash("abd"));
  // Under an all-zero key this would be a constant.
  EXPECT_NE(salted_hash("abc"), sip_hash_1_3({0, 0}, "abc"));
}

}  // namespace
}  // namespace quire
