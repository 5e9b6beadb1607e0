#include "kv/page_pool.h"

#include <limits>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/math.h"

#if defined(__SANITIZE_ADDRESS__)
#define QUIRE_POISON_PAGES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QUIRE_POISON_PAGES 1
#endif
#endif
#ifdef QUIRE_POISON_PAGES
#include <sanitizer/asan_interface.h>
#endif

namespace quire {
namespace {

// Under AddressSanitizer a page that went back to the pool traps when a kernel still touches it.
void forbid_access([[maybe_unused]] std::byte* data, [[maybe_unused]] std::size_t bytes) {
#ifdef QUIRE_POISON_PAGES
  __asan_poison_memory_region(data, bytes);
#endif
}

void allow_access([[maybe_unused]] std::byte* data, [[maybe_unused]] std::size_t bytes) {
#ifdef QUIRE_POISON_PAGES
  __asan_unpoison_memory_region(data, bytes);
#endif
}

}  // namespace

std::string_view page_state_name(PageState state) {
  switch (state) {
    case PageState::kFree:
      return "free";
    case PageState::kHot:
      return "hot";
    case PageState::kSealed:
      return "sealed";
    case PageState::kCached:
      return "cached";
  }
  return "unknown";
}

Result<PagePool> PagePool::create(std::size_t page_bytes, std::uint64_t n_pages) {
  QUIRE_CHECK(page_bytes > 0 && page_bytes % 64 == 0);
  constexpr std::uint64_t kMaxPages = std::numeric_limits<std::uint32_t>::max();
  if (n_pages > kMaxPages)
    return fail(ErrorCode::kInvalidArgument,
                "a KV cache of {} pages is more than the {} that can be numbered; lower "
                "--kv-memory or raise --page-size",
                n_pages, kMaxPages);
  const auto bytes = checked_mul<std::size_t>(n_pages, page_bytes);
  if (!bytes)
    return fail(ErrorCode::kInvalidArgument,
                "a KV cache of {} pages of {} cannot be addressed; lower --kv-memory", n_pages,
                format_byte_size(page_bytes));
  auto arena = MappedMemory::allocate(*bytes);
  if (!arena)
    return fail(arena.error().code, "KV cache of {} pages: {}; lower --kv-memory", n_pages,
                arena.error().message);
  return PagePool(std::move(*arena), page_bytes, n_pages);
}

PagePool::~PagePool() {
  // The addresses may be mapped again by someone else.
  if (arena_.data() != nullptr) allow_access(arena_.data(), pages_.size() * page_bytes_);
}

void PagePool::change_state(Page& page, PageState to) {
  n_cached_pinned_ -= page.pinned && page.state == PageState::kCached;
  n_cached_pinned_ += page.pinned && to == PageState::kCached;
  --counts_[static_cast<std::size_t>(page.state)];
  ++counts_[static_cast<std::size_t>(to)];
  page.state = to;
}

PageId PagePool::take() {
  QUIRE_CHECK(n_free() > 0);
  PageId id(static_cast<std::uint32_t>(pages_.size()));
  if (free_list_.empty()) {
    pages_.emplace_back();
  } else {
    id = free_list_.back();
    free_list_.pop_back();
    allow_access(data(id), page_bytes_);
  }
  Page& page = pages_[id.value];
  page.references = 1;
  change_state(page, PageState::kHot);
  return id;
}

void PagePool::add_reference(PageId id) {
  Page& page = pages_[id.value];
  QUIRE_CHECK(page.state != PageState::kFree);
  QUIRE_CHECK(page.references < std::numeric_limits<std::uint32_t>::max());
  ++page.references;
  if (page.state == PageState::kCached) change_state(page, PageState::kSealed);
}

void PagePool::drop_reference(PageId id) {
  Page& page = pages_[id.value];
  QUIRE_CHECK(page.references > 0);
  --page.references;
  if (page.references == 1 && page.block != kNoBlock) change_state(page, PageState::kCached);
  if (page.references > 0) return;
  QUIRE_CHECK(page.block == kNoBlock);  // its reference is detach()'s to drop
  change_state(page, PageState::kFree);
  free_list_.push_back(id);
  forbid_access(data(id), page_bytes_);
}

void PagePool::seal(PageId id) {
  Page& page = pages_[id.value];
  QUIRE_CHECK(page.state == PageState::kHot);
  change_state(page, PageState::kSealed);
}

void PagePool::reopen(PageId id) {
  Page& page = pages_[id.value];
  QUIRE_CHECK(page.state == PageState::kSealed && page.block == kNoBlock);
  change_state(page, PageState::kHot);
}

void PagePool::attach(PageId id, BlockId block) {
  Page& page = pages_[id.value];
  QUIRE_CHECK(page.state == PageState::kSealed && page.block == kNoBlock);
  add_reference(id);
  page.block = block;
}

void PagePool::detach(PageId id) {
  Page& page = pages_[id.value];
  QUIRE_CHECK(page.block != kNoBlock);
  set_pinned(id, false);
  page.block = kNoBlock;
  drop_reference(id);
}

void PagePool::set_pinned(PageId id, bool pinned) {
  Page& page = pages_[id.value];
  QUIRE_CHECK(page.block != kNoBlock);
  if (page.pinned == pinned) return;
  page.pinned = pinned;
  if (page.state != PageState::kCached) return;
  if (pinned)
    ++n_cached_pinned_;
  else
    --n_cached_pinned_;
}

}  // namespace quire
