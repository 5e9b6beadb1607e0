#pragma once
// The memory of all pages and the state of each. See docs/kv-contract.md for the state machine.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/ids.h"
#include "base/result.h"

namespace quire {

using PageId = StrongId<struct PageTag>;
using BlockId = StrongId<struct BlockTag>;

/// Where a block or a page could be and none is.
inline constexpr BlockId kNoBlock(std::numeric_limits<std::uint32_t>::max());
inline constexpr PageId kNoPage(std::numeric_limits<std::uint32_t>::max());

enum class PageState : std::uint8_t {
  kFree,    // nobody's; contents undefined
  kHot,     // being appended to
  kSealed,  // immutable
  kCached,  // the same, and only a block of the prefix index refers to it
};

std::string_view page_state_name(PageState state);

/// Pages of one size in one arena, so that any free page serves any layer and nothing can fragment.
/// Memory and bookkeeping of a page cost nothing until it is first taken.
class PagePool {
 public:
  struct Page {
    PageState state = PageState::kFree;
    bool pinned = false;  // while a block has it: not to be reclaimed
    std::uint32_t references = 0;
    BlockId block = kNoBlock;  // that has it, and one of the references
  };

  /// page_bytes must be a multiple of 64.
  static Result<PagePool> create(std::size_t page_bytes, std::uint64_t n_pages);
  PagePool(PagePool&&) noexcept = default;
  PagePool& operator=(PagePool&&) noexcept = delete;
  ~PagePool();

  /// free -> hot with one reference. The last page given back comes first: its lines may still be
  /// in a cache. There must be a free page.
  PageId take();
  void add_reference(PageId id);
  /// The last reference frees the page, whatever its state; the last but that of a block makes it
  /// cached.
  void drop_reference(PageId id);
  void seal(PageId id);    // hot -> sealed
  void reopen(PageId id);  // sealed -> hot; only by the one sequence that may write to it

  /// A block refers to a sealed page from now on, beside whoever else does.
  void attach(PageId id, BlockId block);
  void detach(PageId id);
  void set_pinned(PageId id, bool pinned);  // of a block's page

  std::byte* data(PageId id) const { return arena_.data() + id.value * page_bytes_; }
  const Page& page(PageId id) const { return pages_[id.value]; }

  std::size_t page_bytes() const { return page_bytes_; }
  std::size_t n_pages() const { return n_pages_; }
  std::size_t n_free() const { return n_pages_ - n_hot() - n_sealed() - n_cached(); }
  std::size_t n_hot() const { return count(PageState::kHot); }
  std::size_t n_sealed() const { return count(PageState::kSealed); }
  std::size_t n_cached() const { return count(PageState::kCached); }
  std::size_t n_cached_pinned() const { return n_cached_pinned_; }  // of those cached

  /// Every page taken at least once, by id; those past the end were never used and are free.
  std::span<const Page> touched_pages() const { return pages_; }
  /// Pages given back, the next one to take last.
  std::span<const PageId> free_list() const { return free_list_; }

 private:
  PagePool(MappedMemory arena, std::size_t page_bytes, std::size_t n_pages)
      : arena_(std::move(arena)), page_bytes_(page_bytes), n_pages_(n_pages) {}

  std::size_t count(PageState state) const { return counts_[static_cast<std::size_t>(state)]; }
  void change_state(Page& page, PageState to);

  MappedMemory arena_;
  std::size_t page_bytes_;
  std::size_t n_pages_;
  std::array<std::size_t, 4> counts_ = {};  // [PageState]; that of free pages means nothing
  std::size_t n_cached_pinned_ = 0;
  std::vector<Page> pages_;
  std::vector<PageId> free_list_;
};

}  // namespace quire
