#include "kv/kv_manager.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "kv/kv_test_util.h"

namespace quire {
namespace {

using testing::append;
using testing::small_config;

std::string create_error(KvConfig config) {
  auto kv = KvManager::create(std::move(config));
  return kv ? std::string() : kv.error().message;
}

TEST(KvManager, RefusesABudgetBelowOnePageOfEveryLayerWithBothNumbers) {
  for (const std::uint64_t budget : {0u, 1u, 511u, 1535u}) {  // 3 layers * 512 bytes
    KvConfig config = small_config({0, 0, 0}, 0);
    config.budget_bytes = budget;
    auto kv = KvManager::create(config);
    ASSERT_FALSE(kv.has_value());
    EXPECT_EQ(kv.error().code, ErrorCode::kOutOfMemory);
    EXPECT_NE(kv.error().message.find(std::to_string(budget) + " bytes"), std::string::npos);
    EXPECT_NE(kv.error().message.find("1536 bytes"), std::string::npos);
  }
  KvConfig config = small_config({0, 0, 0}, 0);
  config.budget_bytes = 1536 + 511;
  auto kv = KvManager::create(config);
  ASSERT_TRUE(kv.has_value());
  EXPECT_EQ(kv->stats().pages_total, 3u);
}

TEST(KvManager, RefusesImpossibleConfigurations) {
  EXPECT_NE(create_error({}).find("layer"), std::string::npos);
  EXPECT_NE(create_error(small_config({0}, 8, 48)).find("48"), std::string::npos);
  KvConfig huge = small_config({0}, 1);
  huge.budget_bytes = ~std::uint64_t{0};
  EXPECT_NE(create_error(huge).find("--kv-memory"), std::string::npos);
}

TEST(KvManager, EveryPageSizeHoldsWhatIsWritten) {
  for (const std::uint32_t page_size : {16u, 32u, 64u, 128u}) {
    KvManager kv = KvManager::create(small_config({0, 40}, 64, page_size)).value();
    const SequenceId sequence = kv.add_sequence();
    for (std::uint32_t tag = 0; tag < 300;) {
      const std::uint32_t n = 1 + tag % 7;
      ASSERT_TRUE(append(kv, sequence, n, tag));
      tag += n;
      ASSERT_TRUE(kv.validate()) << kv.validate().error().message;
    }
    for (std::uint32_t position = 0; position < kv.length(sequence); ++position) {
      EXPECT_TRUE(testing::slot_has(kv, sequence, 0, position, position));
      if (position + 40 > kv.length(sequence)) {
        EXPECT_TRUE(testing::slot_has(kv, sequence, 1, position, position));
      }
    }
  }
}

TEST(KvManager, StatsFollowPagesThroughTheirStates) {
  KvManager kv = KvManager::create(small_config({0, 0}, 10)).value();
  const SequenceId sequence = kv.add_sequence();
  EXPECT_EQ(kv.stats().pages_free, 10u);
  ASSERT_TRUE(append(kv, sequence, 20));
  const KvStats stats = kv.stats();
  EXPECT_EQ(stats.page_size, 16u);
  EXPECT_EQ(stats.page_bytes, 512u);
  EXPECT_EQ(stats.pages_total, 10u);
  EXPECT_EQ(stats.pages_sealed, 2u);
  EXPECT_EQ(stats.pages_hot, 2u);
  EXPECT_EQ(stats.pages_free, 6u);
  EXPECT_EQ(stats.bytes_used, 4u * 512u);
}

TEST(KvManager, OutOfMemoryNamesBothNumbersAndChangesNothing) {
  KvManager kv = KvManager::create(small_config({0, 0}, 6)).value();
  const SequenceId a = kv.add_sequence();
  const SequenceId b = kv.add_sequence();
  ASSERT_TRUE(append(kv, a, 16, 0));
  // 2 of 6 pages are used. a needs 2 more, b 2 * 2: 6, but 4 are free.
  const std::array requests = {testing::slots(a, 1), testing::slots(b, 32)};
  auto refused = kv.reserve(requests);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(refused.error().message,
            "the KV cache is full: 6 pages (3.0 KiB) are needed, 4 of 6 (2.0 KiB of 3.0 KiB) are "
            "free; end other sequences, shorten the text or raise --kv-memory");
  EXPECT_EQ(kv.stats().pages_free, 4u);
  EXPECT_EQ(kv.length(b), 0u);
  EXPECT_TRUE(kv.table(b, 0).pages.empty());
  EXPECT_TRUE(kv.validate());
  // What fits goes on fitting.
  EXPECT_TRUE(append(kv, a, 16, 16));
  EXPECT_TRUE(append(kv, b, 16, 0));
}

TEST(KvManager, HugeRequestsAreRefusedNotCounted) {
  KvManager kv = KvManager::create(small_config({0}, 4)).value();
  const SequenceId sequence = kv.add_sequence();
  for (const std::size_t n : {std::size_t{1} << 31, std::size_t{1} << 63, ~std::size_t{0}})
    EXPECT_FALSE(append(kv, sequence, n).has_value());
  EXPECT_TRUE(kv.validate());
  EXPECT_EQ(kv.stats().pages_free, 4u);
}

TEST(KvManager, UnknownAndRepeatedSequencesAreRefused) {
  KvManager kv = KvManager::create(small_config({0}, 4)).value();
  const SequenceId a = kv.add_sequence();
  const SequenceId unknown(77);
  const std::array twice = {testing::slots(a, 1), testing::slots(a, 1)};
  EXPECT_EQ(kv.reserve(twice).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(append(kv, unknown, 1).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(kv.fork(unknown).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(kv.truncate(unknown, 0).error().code, ErrorCode::kNotFound);
  kv.release(unknown);
  EXPECT_TRUE(kv.validate());
}

TEST(KvManager, ReleaseIsIdempotentAndLeavesEverythingFree) {
  KvManager kv = KvManager::create(small_config({0, 20}, 12)).value();
  const SequenceId a = kv.add_sequence();
  ASSERT_TRUE(append(kv, a, 37));
  const SequenceId b = kv.fork(a).value();
  kv.release(a);
  kv.release(a);
  EXPECT_TRUE(kv.validate());
  EXPECT_LT(kv.stats().pages_free, 12u);
  kv.release(b);
  kv.release(b);
  kv.release(a);
  EXPECT_EQ(kv.stats().pages_free, 12u);
  EXPECT_TRUE(kv.validate());
}

// Window 20, pages of 16: the token at 36 sees 17 and on, so page 0 goes when 36 are committed.
TEST(KvManager, PagesThatLeftTheWindowAreFreed) {
  KvManager kv = KvManager::create(small_config({0, 20}, 12)).value();
  const SequenceId sequence = kv.add_sequence();
  ASSERT_TRUE(append(kv, sequence, 34, 0));
  EXPECT_EQ(kv.table(sequence, 1).first_page, 0u);  // the next, at 34, still sees 15
  ASSERT_TRUE(append(kv, sequence, 1, 34));
  EXPECT_EQ(kv.table(sequence, 1).first_page, 1u);  // at 35 it sees 16 and on
  EXPECT_EQ(kv.table(sequence, 1).pages.size(), 2u);
  EXPECT_EQ(kv.table(sequence, 0).first_page, 0u);
  EXPECT_EQ(kv.table(sequence, 0).pages.size(), 3u);
  EXPECT_EQ(kv.stats().pages_free, 12u - 5u);
  EXPECT_TRUE(kv.validate());
}

// While a chunk is computed its first token still needs everything in its window.
TEST(KvManager, AChunkKeepsTheWindowOfItsFirstToken) {
  KvManager kv = KvManager::create(small_config({20}, 12)).value();
  const SequenceId sequence = kv.add_sequence();
  ASSERT_TRUE(append(kv, sequence, 34, 0));
  const SlotRequest request = testing::slots(sequence, 100);
  auto reservation = kv.reserve({&request, 1});
  ASSERT_TRUE(reservation.has_value());
  EXPECT_EQ(kv.table(sequence, 0).first_page, 0u);
  EXPECT_EQ(kv.table(sequence, 0).pages.size(), 9u);  // 134 tokens
  EXPECT_EQ(kv.length(sequence), 34u);
  for (std::uint32_t i = 15; i < 34; ++i)
    EXPECT_TRUE(testing::slot_has(kv, sequence, 0, i, i)) << i;
  EXPECT_TRUE(kv.validate());
  reservation->commit();
  // The token at 134 sees 115 and on: pages 7 and 8.
  EXPECT_EQ(kv.table(sequence, 0).first_page, 7u);
  EXPECT_EQ(kv.table(sequence, 0).pages.size(), 2u);
  EXPECT_EQ(kv.stats().pages_free, 10u);
  EXPECT_TRUE(kv.validate());
}

// 4 sequences of a bounded window in a pool that could hold none of them whole.
TEST(KvManager, WindowLayersRunForeverInAFewPages) {
  KvManager kv = KvManager::create(small_config({32}, 16)).value();
  std::array<SequenceId, 4> sequences;
  for (SequenceId& sequence : sequences) sequence = kv.add_sequence();
  for (std::uint32_t i = 0; i < 1000; ++i)
    for (const SequenceId sequence : sequences) ASSERT_TRUE(append(kv, sequence, 1, i));
  EXPECT_TRUE(kv.validate());
  EXPECT_EQ(kv.length(sequences[3]), 1000u);
}

TEST(KvManager, LayersMayDifferInSize) {
  KvConfig config = small_config({0, 0}, 0);
  config.layers[1].layout.head_dim = 5;  // 16 * 2 * 5 * 2 * 4 = 1280 bytes
  config.budget_bytes = 1280 * 4;
  KvManager kv = KvManager::create(config).value();
  EXPECT_EQ(kv.stats().pages_total, 4u);
  const SequenceId sequence = kv.add_sequence();
  ASSERT_TRUE(append(kv, sequence, 32));
  for (std::uint32_t i = 0; i < 32; ++i)
    for (std::size_t layer : {0u, 1u}) EXPECT_TRUE(testing::slot_has(kv, sequence, layer, i, i));
}

}  // namespace
}  // namespace quire
