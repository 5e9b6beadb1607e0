#include "kv/page_pool.h"

#include <gtest/gtest.h>

#include <cstring>

namespace quire {
namespace {

TEST(PagePool, HandsOutTheLastPageGivenBack) {
  PagePool pool = PagePool::create(64, 4).value();
  const PageId a = pool.take();
  const PageId b = pool.take();
  pool.take();
  pool.drop_reference(a);
  pool.drop_reference(b);
  EXPECT_EQ(pool.take(), b);
  EXPECT_EQ(pool.take(), a);
  EXPECT_EQ(pool.n_free(), 1u);
}

TEST(PagePool, EveryPageHasItsOwnMemory) {
  PagePool pool = PagePool::create(128, 8).value();
  for (int i = 0; i < 8; ++i) {
    const PageId page = pool.take();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pool.data(page)) % 64, 0u);
    std::memset(pool.data(page), i, 128);
  }
  for (std::uint32_t i = 0; i < 8; ++i)
    for (std::size_t byte = 0; byte < 128; ++byte)
      ASSERT_EQ(pool.data(PageId(i))[byte], static_cast<std::byte>(i));
  EXPECT_EQ(pool.n_free(), 0u);
}

TEST(PagePool, CountsStatesThroughALife) {
  PagePool pool = PagePool::create(64, 3).value();
  const PageId page = pool.take();
  EXPECT_EQ(pool.page(page).state, PageState::kHot);
  pool.seal(page);
  pool.add_reference(page);
  EXPECT_EQ(pool.n_hot(), 0u);
  EXPECT_EQ(pool.n_sealed(), 1u);
  pool.drop_reference(page);
  EXPECT_EQ(pool.n_sealed(), 1u);
  pool.reopen(page);
  EXPECT_EQ(pool.n_hot(), 1u);
  pool.drop_reference(page);
  EXPECT_EQ(pool.page(page).state, PageState::kFree);
  EXPECT_EQ(pool.n_free(), 3u);
}

TEST(PagePool, WhatOnlyABlockHasIsCached) {
  PagePool pool = PagePool::create(64, 3).value();
  const PageId page = pool.take();
  pool.seal(page);
  pool.attach(page, BlockId(7));
  EXPECT_EQ(pool.page(page).state, PageState::kSealed);
  pool.drop_reference(page);
  EXPECT_EQ(pool.page(page).state, PageState::kCached);
  EXPECT_EQ(pool.n_cached(), 1u);
  EXPECT_EQ(pool.n_sealed(), 0u);
  EXPECT_EQ(pool.n_free(), 2u);
  pool.set_pinned(page, true);
  EXPECT_EQ(pool.n_cached_pinned(), 1u);
  pool.add_reference(page);
  EXPECT_EQ(pool.page(page).state, PageState::kSealed);
  EXPECT_EQ(pool.n_cached_pinned(), 0u);
  pool.drop_reference(page);
  EXPECT_EQ(pool.n_cached_pinned(), 1u);
  pool.detach(page);
  EXPECT_EQ(pool.n_free(), 3u);
  EXPECT_EQ(pool.n_cached_pinned(), 0u);
  EXPECT_EQ(pool.page(pool.take()).block, kNoBlock);
}

// A budget far above the machine's memory costs only address space until pages are used.
TEST(PagePool, UnusedPagesCostNothing) {
  auto pool = PagePool::create(1 << 20, 1 << 20);  // 1 TiB
  ASSERT_TRUE(pool.has_value()) << pool.error().message;
  EXPECT_EQ(pool->n_free(), std::size_t{1} << 20);
  *pool->data(pool->take()) = std::byte{1};
  EXPECT_EQ(pool->touched_pages().size(), 1u);
}

TEST(PagePool, RefusesMoreThanCanBeNumberedOrMapped) {
  auto many = PagePool::create(64, std::uint64_t{1} << 40);
  ASSERT_FALSE(many.has_value());
  EXPECT_NE(many.error().message.find("1099511627776"), std::string::npos);
  auto large = PagePool::create(std::size_t{1} << 40, (std::uint64_t{1} << 32) - 1);
  ASSERT_FALSE(large.has_value());
  EXPECT_NE(large.error().message.find("--kv-memory"), std::string::npos);
  auto unmappable = PagePool::create(std::size_t{1} << 30, std::uint64_t{1} << 31);  // 2 EiB
  ASSERT_FALSE(unmappable.has_value());
  EXPECT_EQ(unmappable.error().code, ErrorCode::kOutOfMemory);
}

TEST(PagePoolDeath, MisuseStops) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  PagePool pool = PagePool::create(64, 1).value();
  const PageId page = pool.take();
  EXPECT_DEATH(pool.take(), "check failed");
  EXPECT_DEATH(pool.reopen(page), "check failed");
  pool.seal(page);
  EXPECT_DEATH(pool.seal(page), "check failed");
  pool.drop_reference(page);
  EXPECT_DEATH(pool.drop_reference(page), "check failed");
  EXPECT_DEATH(pool.add_reference(page), "check failed");
}

}  // namespace
}  // namespace quire
