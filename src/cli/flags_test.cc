#include "cli/flags.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quire {
namespace {

TEST(LogitBias, ReadsTheThreeWaysToWriteIt) {
  const auto read = [](std::string_view text) { return *parse_logit_bias(text); };
  EXPECT_EQ(read("15043+1.5"), (std::pair<TokenId, float>{15043, 1.5f}));
  EXPECT_EQ(read("7-2"), (std::pair<TokenId, float>{7, -2.0f}));
  EXPECT_EQ(read("7=3"), (std::pair<TokenId, float>{7, 3.0f}));
  EXPECT_EQ(read("7=-3"), (std::pair<TokenId, float>{7, -3.0f}));
  EXPECT_EQ(read("0-inf").second, -INFINITY);
  EXPECT_EQ(read("0=-inf").second, -INFINITY);
  EXPECT_EQ(read("0+1e2").second, 100.0f);
}

TEST(LogitBias, RefusesEverythingElse) {
  for (const char* bad : {"", "5", "5+", "5-", "=", "+1", "-1+2", "a+1", "5+nan", "5=nan", "5+-1",
                          "5++1", "5--1", "5 +1", "5+1x", "5:1", "99999999999+1", "5+1e999"}) {
    EXPECT_FALSE(parse_logit_bias(bad)) << bad;
  }
}

TEST(SamplingFlags, AGivenSeedIsKeptAndNoneIsDrawn) {
  SamplingFlags flags;
  flags.seed = 7;
  EXPECT_EQ(flags.resolve()->seed, 7u);
  flags.seed = -1;
  std::vector<std::uint64_t> seeds;
  for (int i = 0; i < 4; ++i) seeds.push_back(flags.resolve()->seed);
  EXPECT_NE(seeds, std::vector<std::uint64_t>(4, seeds[0]));
}

}  // namespace
}  // namespace quire
