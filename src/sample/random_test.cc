#include "sample/random.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

using Counter = std::array<std::uint32_t, 4>;

// The known answers that the Random123 library publishes for philox4x32-10.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(UniformDraw, UsesTheTop53BitsOfTheFirstTwoWords) {
  // (0xe169c58d6627e8d5 >> 11) / 2^53, from the first published answer
  EXPECT_EQ(uniform_draw(0, 0), 0x1.c2d38b1acc4fdp-1);
}

TEST(UniformDraw, BothHalvesOfSeedAndIndexCount) {
  const double first = uniform_draw(1, 1);
  EXPECT_NE(first, uniform_draw(1, 2));
  EXPECT_NE(first, uniform_draw(1, 1 + (std::uint64_t{1} << 32)));
  EXPECT_NE(first, uniform_draw(1 + (std::uint64_t{1} << 32), 1));
}

TEST(UniformDraw, IsUniformOverTenBins) {
  constexpr std::size_t kDraws = 100000;
  std::vector<double> bins(10);
  for (std::size_t i = 0; i < kDraws; ++i) {
    const double u = uniform_draw(7, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<std::size_t>(u * 10)];
  }
  double chi_square = 0;
  for (const double n : bins)
    chi_square += (n - kDraws / 10.0) * (n - kDraws / 10.0) / (kDraws / 10.0);
  EXPECT_LT(chi_square, 27.88);  // 9 degrees of freedom, p = 0.001
}

}  // namespace
}  // namespace quire
