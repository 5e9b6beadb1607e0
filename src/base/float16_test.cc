#include "base/float16.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quire {
namespace {

#if defined(__aarch64__)
using Half = __fp16;  // g++ 12 has _Float16 in C++ only on x86
#else
using Half = _Float16;
#endif

// The compiler's own _Float16 is the independent oracle where the target has it.
#ifdef __FLT16_MAX__
TEST(Float16, EveryHalfMatchesTheCompiler) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto h = static_cast<std::uint16_t>(bits);
    const float expected = static_cast<float>(std::bit_cast<Half>(h));
    const float got = f16_to_f32(h);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got));
      continue;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(expected)) << bits;
    ASSERT_EQ(f32_to_f16(got), h) << bits;
  }
}

TEST(Float16, RoundsAsTheCompilerDoes) {
  // A stride through all floats that meets every exponent and many ties.
  for (std::uint64_t bits = 0; bits < 0x100000000ull; bits += 0x801) {
    const float f = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const std::uint16_t got = f32_to_f16(f);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(got)));
      continue;
    }
    ASSERT_EQ(got, std::bit_cast<std::uint16_t>(static_cast<Half>(f))) << f;
  }
}
#endif

TEST(Float16, Bfloat16RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie to even
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(NAN))));
  EXPECT_EQ(bf16_to_f32(0x4049), 3.140625f);
}

}  // namespace
}  // namespace quire
