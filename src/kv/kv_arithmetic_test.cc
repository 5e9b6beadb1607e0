#include "kv/kv_arithmetic.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

KvConfig uniform(std::size_t n_layers, KvLayout layout, std::size_t window = 0) {
  KvConfig config;
  config.layers.assign(n_layers, {layout, window});
  return config;
}

constexpr KvLayout kF16{.n_kv_heads = 64, .head_dim = 128};

// 70B with one KV head per query head: 2 (K, V) * 80 layers * 64 heads * 128 elements * 2 bytes =
// 2,621,440 bytes a token; 32 requests of 4096 tokens take 343,597,383,680 bytes: 343.6 GB, which
// is 320 GiB exactly.
TEST(KvArithmetic, SeventyBillionParameterExample) {
  const KvConfig config = uniform(80, kF16);
  EXPECT_EQ(kv_bytes_per_token(config), 2'621'440u);
  EXPECT_EQ(kv_bytes_per_token(config) * 32 * 4096, 343'597'383'680u);
  EXPECT_EQ(kv_bytes_for(config, 4096) * 32, 343'597'383'680u);
  EXPECT_EQ(kv_bytes_for(config, 4096) * 32, std::uint64_t{320} << 30);
}

// SmolLM2-135M: 30 layers, 3 KV heads of 64: 2 * 30 * 3 * 64 * 2 = 23,040 bytes a token; a page of
// 16 tokens of one layer is 2 * 16 * 3 * 64 * 2 = 12,288 bytes.
TEST(KvArithmetic, SmolLm2) {
  const KvConfig config = uniform(30, {.n_kv_heads = 3, .head_dim = 64});
  EXPECT_EQ(kv_bytes_per_token(config), 23'040u);
  EXPECT_EQ(kv_page_bytes(config), 12'288u);
  EXPECT_EQ(kv_pages_for(config, 0), 0u);
  EXPECT_EQ(kv_pages_for(config, 1), 30u);
  EXPECT_EQ(kv_pages_for(config, 16), 30u);
  EXPECT_EQ(kv_pages_for(config, 17), 60u);
  EXPECT_EQ(kv_bytes_for(config, 17), 60u * 12'288u);
}

// Types count: f32 keys take 4 bytes, bf16 values 2: 16 * 2 * (4 + 2) = 192 bytes for one head
// of 2.
TEST(KvArithmetic, KeysAndValuesCountByTheirOwnTypes) {
  const KvConfig config =
      uniform(1, {.k_type = KvType::kF32, .v_type = KvType::kBF16, .n_kv_heads = 1, .head_dim = 2});
  EXPECT_EQ(kv_page_bytes(config), 192u);
  EXPECT_EQ(kv_bytes_per_token(config), 12u);
}

TEST(KvArithmetic, PageBytesAreTheLargestLayersRoundedTo64) {
  KvConfig config = uniform(1, {.n_kv_heads = 1, .head_dim = 2});  // 16 * 2 * 4 = 128
  config.layers.push_back({{.n_kv_heads = 1, .head_dim = 5}, 0});  // 16 * 5 * 4 = 320
  EXPECT_EQ(kv_page_bytes(config), 320u);
  config.layers.push_back({{.n_kv_heads = 3, .head_dim = 2, .page_size = 16}, 0});  // 384
  EXPECT_EQ(kv_page_bytes(config), 384u);
  // 16 * 3 * (4 + 2) = 288 is no multiple of 64, 320 is the next.
  EXPECT_EQ(kv_page_bytes(uniform(1, {.k_type = KvType::kF32, .n_kv_heads = 1, .head_dim = 3})),
            320u);
}

TEST(KvArithmetic, PagesFor) {
  EXPECT_EQ(pages_for(0, 16), 0u);
  EXPECT_EQ(pages_for(1, 16), 1u);
  EXPECT_EQ(pages_for(16, 16), 1u);
  EXPECT_EQ(pages_for(17, 16), 2u);
  EXPECT_EQ(pages_for(4096, 128), 32u);
}

// A token at p sees (p - window, p]: with window 4, the token at 10 sees 7, 8, 9 and itself.
TEST(KvArithmetic, FirstVisiblePosition) {
  EXPECT_EQ(first_visible_position(10, 4), 7u);
  EXPECT_EQ(first_visible_position(3, 4), 0u);
  EXPECT_EQ(first_visible_position(4, 4), 1u);
  EXPECT_EQ(first_visible_position(10, 1), 10u);
  EXPECT_EQ(first_visible_position(1'000'000, 0), 0u);
  EXPECT_EQ(first_visible_position(5, static_cast<std::size_t>(-1)), 0u);
}

// Gemma's window of 512 with pages of 16. At 1000 tokens the next one, at 1000, sees 489 and on:
// pages 30 to 62 of 0 to 62.
TEST(KvArithmetic, LivePagesOfAWindow) {
  EXPECT_EQ(live_pages(1000, 16, 512), 33u);
  EXPECT_EQ(live_pages(512, 16, 512), 32u);  // sees 1 and on: page 0 is still needed
  EXPECT_EQ(live_pages(527, 16, 512), 32u);  // sees 16 and on: page 0 is not, 33 pages in all
  EXPECT_EQ(live_pages(1000, 16, 0), 63u);
  EXPECT_EQ(live_pages(16, 16, 1), 0u);
}

TEST(KvArithmetic, RefusesWhatCannotBe) {
  const auto message = [](const KvConfig& config) {
    const Status status = check_kv_config(config);
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(message(uniform(2, kF16)), "");
  EXPECT_NE(message({}).find("at least one layer"), std::string::npos);
  for (const std::uint32_t size : {0u, 1u, 8u, 17u, 24u, 256u, 0xffffffffu})
    EXPECT_NE(message(uniform(1, {.n_kv_heads = 1, .head_dim = 64, .page_size = size}))
                  .find(std::to_string(size)),
              std::string::npos);
  EXPECT_NE(message(uniform(1, {.n_kv_heads = 0, .head_dim = 64})).find("0 KV heads"),
            std::string::npos);
  EXPECT_NE(message(uniform(1, {.n_kv_heads = 1, .head_dim = 0})).find("0 elements"),
            std::string::npos);
  KvConfig mixed = uniform(2, kF16);
  mixed.layers[1].layout.page_size = 32;
  EXPECT_NE(message(mixed).find("layer 1 has 32"), std::string::npos);
  // 128 * 2^32 * 2^32 * 4 bytes wrap 64 bits.
  EXPECT_NE(
      message(uniform(1, {.n_kv_heads = 0xffffffffu, .head_dim = 0xffffffffu, .page_size = 128}))
          .find("too large"),
      std::string::npos);
}

}  // namespace
}  // namespace quire
