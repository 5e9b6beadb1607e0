// PrefixWorld driven at random and for long, in small pools, with names that collide.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <vector>

#include "kv/kv_test_util.h"
#include "kv/prefix_world_testing.h"

namespace quire {
namespace {

using testing::PrefixWorld;

KvConfig with_bits(KvConfig config, unsigned bits) {
  config.prefix_name_bits = bits;
  return config;
}

KvConfig random_prefix_config() {
  const auto n_layers = *rc::gen::inRange<std::size_t>(1, 4);
  std::vector<std::size_t> windows;
  for (std::size_t i = 0; i < n_layers; ++i)
    windows.push_back(*rc::gen::element<std::size_t>(0, 0, 1, 2, 5, 16, 17, 40, 64));
  const auto page_size = *rc::gen::element<std::uint32_t>(16, 16, 32);
  const auto pages_per_layer = *rc::gen::inRange<std::size_t>(1, 24);
  return with_bits(testing::small_config(windows, n_layers * pages_per_layer, page_size),
                   *rc::gen::element(1u, 2u, 4u, 8u, 64u));
}

RC_GTEST_PROP(PrefixModel, EverySequenceSeesItsOwnTokens, ()) {
  PrefixWorld world(random_prefix_config());
  const auto ops = *rc::gen::container<std::vector<std::uint32_t>>(
      *rc::gen::inRange<std::size_t>(0, 150), rc::gen::arbitrary<std::uint32_t>());
  for (const std::uint32_t op : ops) world.step(op * 2654435761u);
  RC_TAG(world.hits > 0 ? "hits" : "no hits");
  world.finish();
}

void live(PrefixWorld& world, int n) {
  std::uint32_t random = 12345;
  for (int i = 0; i < n; ++i) {
    random = random * 1664525u + 1013904223u;
    world.step(random >> 4);
  }
}

// Long fixed lives, so that the test is known to reach what it is for.
TEST(PrefixModel, LongLivesReachEverything) {
  const std::array configs = {
      with_bits(testing::small_config({0, 20, 40}, 36), 8), testing::small_config({0}, 14),
      with_bits(testing::small_config({17, 0}, 16, 32), 1), testing::small_config({1, 5, 64}, 30),
      with_bits(testing::small_config({17}, 10), 3)};
  std::size_t pins_refused = 0;
  for (const KvConfig& config : configs) {
    PrefixWorld world(config);
    live(world, 3000);
    EXPECT_GT(world.refusals, 50u);
    EXPECT_GT(world.commits, 300u);
    EXPECT_GT(world.hits, 100u);
    EXPECT_GT(world.partial_hits, 50u);
    EXPECT_GT(world.pins_made, 20u);
    pins_refused += world.pins_refused;
    EXPECT_GT(world.kv().stats().prefix_blocks_evicted, 50u);
    world.finish();
  }
  EXPECT_GT(pins_refused, 5u);
}

// With room for everything, a hit is as long as anything published allows.
TEST(PrefixModel, WithoutEvictionNothingPublishedIsMissed) {
  for (const unsigned bits : {1u, 64u}) {
    PrefixWorld world(with_bits(testing::small_config({0, 20, 1}, 60000), bits));
    world.expect_whole_hits();
    std::uint32_t random = 99;
    for (int i = 0; i < 1500; ++i) {
      random = random * 1664525u + 1013904223u;
      if ((random >> 4) % 14 != 8) world.step(random >> 4);  // no flush
    }
    EXPECT_EQ(world.kv().stats().prefix_blocks_evicted, 0u);
    EXPECT_GT(world.hits, 100u);
    world.finish();
  }
}

}  // namespace
}  // namespace quire
