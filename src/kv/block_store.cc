#include "kv/block_store.h"

#include <algorithm>

#include "base/check.h"

namespace quire {
namespace {

LayerKind kind_of(std::size_t window) {
  if (window == 0) return LayerKind::kWhole;
  return window == 1 ? LayerKind::kNothing : LayerKind::kWindow;
}

/// How many times the cost of a token's matrix products it takes to compute it at this position,
/// attention included. That grows with depth and passes the products at some thousand tokens: about
/// 3,000 in SmolLM2-135M (212 MFLOP beside 69 kFLOP for each token before), 30,000 in Llama 3 8B.
double cost_at(std::size_t position) {
  constexpr double kAttentionEqualsProducts = 4096;
  return 1 + static_cast<double>(position) / kAttentionEqualsProducts;
}

}  // namespace

BlockStore::BlockStore(const KvConfig& config, PagePool& pool)
    : pool_(pool),
      index_(config.layers.front().layout.page_size, config.prefix_name_bits),
      page_size_(config.layers.front().layout.page_size) {
  for (const KvLayerSpec& layer : config.layers) {
    kinds_.push_back(kind_of(layer.window));
    n_whole_layers_ += kinds_.back() == LayerKind::kWhole;
    n_window_layers_ += kinds_.back() == LayerKind::kWindow;
  }
}

void BlockStore::make_room_for(BlockId id) {
  if (id.value < blocks_.size()) return;
  blocks_.resize(index_.id_limit());
  pages_.resize(index_.id_limit() * kinds_.size(), kNoPage);
}

BlockId BlockStore::open_namespace(std::string_view name) {
  const BlockId root = index_.open_namespace(name);
  make_room_for(root);
  return root;
}

BlockId BlockStore::add(BlockId parent, std::span<const TokenId> tokens) {
  QUIRE_CHECK(blocks_[parent.value].users > 0);  // so that it is not queued to be reclaimed
  const BlockId id = index_.insert(parent, tokens);
  make_room_for(id);
  credit(id, BlockPart::kBody);
  return id;
}

void BlockStore::give_page(BlockId id, std::size_t layer, PageId page) {
  PageId& place = pages_[id.value * kinds_.size() + layer];
  QUIRE_CHECK(place == kNoPage && kinds_[layer] != LayerKind::kNothing);
  place = page;
  pool_.attach(page, id);
  if (part_of(id, part_in(layer)).pins > 0) pool_.set_pinned(page, true);
}

void BlockStore::use(BlockId id) {
  ++blocks_[id.value].users;
  dequeue(id, BlockPart::kBody);
}

void BlockStore::unuse(BlockId id) {
  QUIRE_CHECK(blocks_[id.value].users > 0);
  if (--blocks_[id.value].users > 0) return;
  revalue(id, BlockPart::kBody);
  settle(id);
}

void BlockStore::need_window(BlockId id) {
  if (++blocks_[id.value].window_needs == 1) requeue_window(id);
}

void BlockStore::unneed_window(BlockId id) {
  QUIRE_CHECK(blocks_[id.value].window_needs > 0);
  if (--blocks_[id.value].window_needs == 0) requeue_window(id);
}

void BlockStore::acquire_page(PageId page, std::size_t layer) {
  const bool was_cached = pool_.page(page).state == PageState::kCached;
  pool_.add_reference(page);
  if (!was_cached || kinds_[layer] != LayerKind::kWindow) return;
  const BlockId id = pool_.page(page).block;
  if (--blocks_[id.value].window_cached == 0) dequeue(id, BlockPart::kWindow);
}

void BlockStore::drop_page(PageId page, std::size_t layer) {
  pool_.drop_reference(page);
  if (kinds_[layer] != LayerKind::kWindow || pool_.page(page).state != PageState::kCached) return;
  const BlockId id = pool_.page(page).block;
  if (++blocks_[id.value].window_cached == 1) enqueue_window_if_cached(id);
}

bool BlockStore::is_useful(BlockId id) const {
  if (n_whole_layers_ + n_window_layers_ == 0) return false;
  for (std::size_t layer = 0; layer < kinds_.size(); ++layer)
    if (kinds_[layer] != LayerKind::kNothing && page(id, layer) == kNoPage) return false;
  return true;
}

// --- Reclaiming ----------------------------------------------------------------------------------

void BlockStore::revalue(BlockId id, BlockPart part) {
  if (index_.is_root(id)) return;
  Part& p = part_of(id, part);
  QUIRE_CHECK(!p.queued);
  // The body goes last and takes the rest with it.
  const std::size_t n_pages =
      part == BlockPart::kWindow ? n_window_layers_ : n_whole_layers_ + n_window_layers_;
  const double size = static_cast<double>(std::max<std::size_t>(n_pages, 1));
  std::uint32_t frequency = p.frequency;
  if (part == BlockPart::kWindow && blocks_[id.value].window_needs > 0) ++frequency;
  p.entry = queue_.valued(id, part, frequency * cost_at(index_.page_index(id) * page_size_) / size);
}

void BlockStore::enqueue(BlockId id, BlockPart part) {
  Part& p = part_of(id, part);
  if (p.queued) return;
  queue_.push(p.entry);
  p.queued = true;
}

void BlockStore::dequeue(BlockId id, BlockPart part) {
  Part& p = part_of(id, part);
  if (!p.queued) return;
  queue_.remove(p.entry);
  p.queued = false;
}

void BlockStore::enqueue_window_if_cached(BlockId id) {
  const Part& part = part_of(id, BlockPart::kWindow);
  if (blocks_[id.value].window_cached == 0 || part.pins > 0 || part.queued) return;
  revalue(id, BlockPart::kWindow);
  enqueue(id, BlockPart::kWindow);
}

void BlockStore::requeue_window(BlockId id) {
  dequeue(id, BlockPart::kWindow);
  enqueue_window_if_cached(id);
}

bool BlockStore::is_free_leaf(BlockId id) const {
  const Block& block = blocks_[id.value];
  return block.users == 0 && block.parts[0].pins == 0 && index_.children(id).empty();
}

void BlockStore::settle(BlockId id) {
  while (is_free_leaf(id)) {
    if (!index_.is_root(id) && is_useful(id)) return enqueue(id, BlockPart::kBody);
    const BlockId parent = index_.parent(id);
    remove(id);
    if (parent == kNoBlock) return;
    id = parent;
  }
}

void BlockStore::remove(BlockId id) {
  for (std::size_t layer = 0; layer < kinds_.size(); ++layer) {
    PageId& place = pages_[id.value * kinds_.size() + layer];
    if (place != kNoPage) pool_.detach(place);
    place = kNoPage;
  }
  dequeue(id, BlockPart::kBody);
  dequeue(id, BlockPart::kWindow);
  n_evicted_ += !index_.is_root(id);
  index_.remove(id);
  blocks_[id.value] = Block();
}

void BlockStore::remove_window_pages(BlockId id) {
  dequeue(id, BlockPart::kWindow);
  for (std::size_t layer = 0; layer < kinds_.size(); ++layer) {
    PageId& place = pages_[id.value * kinds_.size() + layer];
    if (kinds_[layer] != LayerKind::kWindow || place == kNoPage) continue;
    if (pool_.page(place).state != PageState::kCached) continue;  // a sequence still sees it
    pool_.detach(place);
    place = kNoPage;
  }
  Block& block = blocks_[id.value];
  block.window_cached = 0;
  block.parts[static_cast<std::size_t>(BlockPart::kWindow)].frequency = 0;
  settle(id);
}

void BlockStore::reclaim(std::size_t n_pages) {
  while (pool_.n_free() < n_pages && !queue_.empty()) {
    const EvictionQueue::Entry least = queue_.pop();
    part_of(least.block, least.part).queued = false;
    if (least.part == BlockPart::kWindow) {
      remove_window_pages(least.block);
    } else {
      const BlockId parent = index_.parent(least.block);
      remove(least.block);
      settle(parent);
    }
  }
}

}  // namespace quire
