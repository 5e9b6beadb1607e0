#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kv/kv_manager.h"
#include "kv/page_pool.h"

namespace quire {

/// The pages of one sequence in one layer, in order of position. It only remembers which pages:
/// who takes one out owes the pool its reference. The addresses for kernels are kept beside the
/// ids, since a step must not build them anew for every layer.
class PageTable {
 public:
  bool empty() const { return ids_.empty(); }
  std::size_t size() const { return ids_.size(); }
  /// Page indices count from position 0: page `i` holds positions [i * page_size, ...).
  std::size_t first_page() const { return first_page_; }
  std::size_t end_page() const { return first_page_ + ids_.size(); }
  std::span<const PageId> ids() const { return ids_; }
  std::span<std::byte* const> addresses() const { return addresses_; }
  PageId tail() const { return ids_.back(); }
  PageId at(std::size_t page_index) const {
    QUIRE_CHECK(page_index >= first_page_ && page_index < end_page());
    return ids_[page_index - first_page_];
  }
  PageTableView view() const { return {addresses_, first_page_}; }

  void push(PageId page, const PagePool& pool) {
    ids_.push_back(page);
    addresses_.push_back(pool.data(page));
  }
  PageId pop() {
    const PageId page = ids_.back();
    ids_.pop_back();
    addresses_.pop_back();
    return page;
  }
  /// Puts `page` in the place of another one, which it returns.
  PageId replace(std::size_t page_index, PageId page, const PagePool& pool) {
    QUIRE_CHECK(page_index >= first_page_ && page_index < end_page());
    addresses_[page_index - first_page_] = pool.data(page);
    return std::exchange(ids_[page_index - first_page_], page);
  }
  PageId replace_tail(PageId page, const PagePool& pool) {
    return replace(end_page() - 1, page, pool);
  }
  /// Forgets the first n pages: they left the window.
  void drop_front(std::size_t n) {
    const auto count = static_cast<std::ptrdiff_t>(n);
    ids_.erase(ids_.begin(), ids_.begin() + count);
    addresses_.erase(addresses_.begin(), addresses_.begin() + count);
    first_page_ += n;
  }
  /// Where the next page of an empty table goes.
  void restart_at(std::size_t page_index) {
    QUIRE_CHECK(empty());
    first_page_ = page_index;
  }

 private:
  std::vector<PageId> ids_;
  std::vector<std::byte*> addresses_;
  std::size_t first_page_ = 0;
};

}  // namespace quire
