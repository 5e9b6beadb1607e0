#include "sample/portable_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace quire {
namespace {

// The C library's long double functions are the oracle: 11 bits more than a double.
TEST(PortableExp, AgreesWithLongDoubleWithinTwoUlp) {
  for (int i = 0; i <= 200000; ++i) {
    const double x = -707.0 * static_cast<double>(i) / 200000.0;
    const long double expected = std::exp(static_cast<long double>(x));
    const long double error = std::abs(static_cast<long double>(portable_exp(x)) - expected);
    ASSERT_LE(error, 2.0L * 0x1p-53L * 2.0L * expected) << x;
  }
}

TEST(PortableExp, HasExactEnds) {
  EXPECT_EQ(portable_exp(0.0), 1.0);
  EXPECT_EQ(portable_exp(-0.0), 1.0);
  EXPECT_EQ(portable_exp(-1e300), 0.0);
  EXPECT_EQ(portable_exp(-std::numeric_limits<double>::infinity()), 0.0);
}

TEST(PortableLog, AgreesWithLongDouble) {
  for (int i = 1; i <= 200000; ++i) {
    const double x = std::ldexp(1.0 + static_cast<double>(i) / 200000.0, i % 41 - 5);
    const long double expected = std::log(static_cast<long double>(x));
    const long double error = std::abs(static_cast<long double>(portable_log(x)) - expected);
    ASSERT_LE(error, 0x1p-51L * std::max(0.25L, std::abs(expected))) << x;
  }
  EXPECT_EQ(portable_log(1.0), 0.0);
}

}  // namespace
}  // namespace quire
