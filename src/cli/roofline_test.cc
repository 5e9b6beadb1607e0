#include "cli/roofline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "kernels/kernels.h"

namespace quire {
namespace {

constexpr RooflineSettings kQuick = {
    .n_threads = 2, .memory_bytes = 1 << 20, .cache_bytes = 4096, .seconds = 1e-3};

TEST(Roofline, EveryLimitIsANumber) {
  std::vector<double> told;
  const auto roofline = measure_roofline(kQuick, [&](double done) {
    told.push_back(done);
    return true;
  });
  ASSERT_TRUE(roofline) << roofline.error().message;
  EXPECT_EQ(roofline->n_threads, 2u);
  for (const double value :
       {roofline->memory_bytes, roofline->cache_bytes, roofline->int8_macs, roofline->f32_macs}) {
    EXPECT_TRUE(std::isfinite(value));
    EXPECT_GT(value, 0);
  }
  EXPECT_EQ(roofline->bf16_macs > 0, kernels().pair_peak != nullptr);
  ASSERT_FALSE(told.empty());
  for (std::size_t i = 1; i < told.size(); ++i) EXPECT_GE(told[i], told[i - 1]);
  EXPECT_LE(told.front(), 0.2);  // of five figures none is done
  EXPECT_LE(told.back(), 1);
}

TEST(Roofline, EndsWhenAsked) {
  std::size_t asked = 0;
  const auto roofline = measure_roofline(kQuick, [&](double) { return ++asked < 2; });
  ASSERT_TRUE(roofline);
  EXPECT_EQ(asked, 2u);  // not asked again
  EXPECT_EQ(roofline->f32_macs, 0);
}

TEST(Roofline, MoreMemoryThanThereIsIsRefused) {
  RooflineSettings settings = kQuick;
  settings.memory_bytes = std::size_t{1} << 60;
  EXPECT_EQ(measure_roofline(settings).error().code, ErrorCode::kOutOfMemory);
}

TEST(Roofline, ASmallMemoryIsSharedByManyThreads) {
  RooflineSettings settings = kQuick;
  settings.n_threads = 5;
  settings.memory_bytes = 4096;
  EXPECT_TRUE(measure_roofline(settings));
}

}  // namespace
}  // namespace quire
