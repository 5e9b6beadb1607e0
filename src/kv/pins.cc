// Pinned prefixes: blocks that stay until they are unpinned.

#include <algorithm>

#include "base/bytes.h"
#include "base/check.h"
#include "kv/block_store.h"

namespace quire {

Result<PinId> BlockStore::pin(BlockId last, std::size_t first_window_page) {
  std::size_t n_new = 0;
  for (BlockId id = last; !index_.is_root(id); id = index_.parent(id)) {
    if (part_of(id, BlockPart::kBody).pins == 0) n_new += n_whole_layers_;
    if (index_.page_index(id) >= first_window_page && part_of(id, BlockPart::kWindow).pins == 0)
      n_new += n_window_layers_;
  }
  const std::size_t limit = pool_.n_pages() / 2;
  if (n_new + pages_pinned_ > limit)
    return fail(ErrorCode::kOutOfMemory,
                "pinning this prefix would make {} of {} KV pages pinned ({} of {}); at most half, "
                "{}, can be, and {} are already; unpin others, pin less or raise --kv-memory",
                n_new + pages_pinned_, pool_.n_pages(),
                format_byte_size((n_new + pages_pinned_) * pool_.page_bytes()),
                format_byte_size(pool_.n_pages() * pool_.page_bytes()), limit, pages_pinned_);
  for (BlockId id = last; !index_.is_root(id); id = index_.parent(id)) {
    add_pin(id, BlockPart::kBody);
    if (index_.page_index(id) >= first_window_page) add_pin(id, BlockPart::kWindow);
  }
  while (pins_.contains(PinId(next_pin_))) ++next_pin_;
  const PinId pin(next_pin_++);
  pins_[pin] = {last, first_window_page};
  return pin;
}

bool BlockStore::unpin(PinId pin) {
  const auto found = pins_.find(pin);
  if (found == pins_.end()) return false;
  const auto [last, first_window_page] = found->second;
  pins_.erase(found);
  for (BlockId id = last; !index_.is_root(id);) {
    const BlockId parent = index_.parent(id);  // settling may remove the block
    if (index_.page_index(id) >= first_window_page) remove_pin(id, BlockPart::kWindow);
    remove_pin(id, BlockPart::kBody);
    id = parent;
  }
  return true;
}

void BlockStore::add_pin(BlockId id, BlockPart part) {
  if (++part_of(id, part).pins > 1) return;
  pages_pinned_ += pages_in(part);
  dequeue(id, part);
  mark_pinned(id, part, true);
}

void BlockStore::remove_pin(BlockId id, BlockPart part) {
  if (--part_of(id, part).pins > 0) return;
  pages_pinned_ -= pages_in(part);
  mark_pinned(id, part, false);
  if (part == BlockPart::kWindow)
    enqueue_window_if_cached(id);
  else
    settle(id);
}

void BlockStore::mark_pinned(BlockId id, BlockPart part, bool pinned) {
  for (std::size_t layer = 0; layer < kinds_.size(); ++layer)
    if (part_in(layer) == part && page(id, layer) != kNoPage)
      pool_.set_pinned(page(id, layer), pinned);
}

}  // namespace quire
