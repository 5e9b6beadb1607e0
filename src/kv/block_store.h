#pragma once
// The blocks of the prefix index with their pages: who uses them, who pinned them, and which of
// their pages go when room is needed. See docs/kv-contract.md.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/eviction_queue.h"
#include "kv/kv_types.h"
#include "kv/page_pool.h"
#include "kv/prefix_index.h"

namespace quire {

/// Which pages of a layer a block has.
enum class LayerKind : std::uint8_t {
  kWhole,    // no window: needed by every hit
  kWindow,   // needed by hits that end near enough
  kNothing,  // a window of one token: no hit ever needs a page
};

class BlockStore {
 public:
  struct Part {
    std::uint32_t frequency = 0;  // how often it served
    std::uint32_t pins = 0;
    bool queued = false;
    EvictionQueue::Entry entry;  // in the queue, or as it will be
  };

  struct Block {
    std::uint32_t users = 0;          // sequences that have it in their chain; of a root: all
    std::uint32_t window_cached = 0;  // pages of window layers nobody else refers to
    std::uint32_t window_needs = 0;   // sequences that could be gone on from only with these pages
    std::array<Part, 2> parts;        // [BlockPart]
  };

  struct Pin {
    BlockId last;                       // and everything above it
    std::size_t first_window_page = 0;  // page index from which window layers are pinned
  };

  /// `pool` must outlive the store.
  BlockStore(const KvConfig& config, PagePool& pool);

  // --- Blocks of sequences

  /// Sequences open and close their namespace, which is forgotten with its last use.
  BlockId open_namespace(std::string_view name);
  /// A new block without pages, below one that the caller uses.
  BlockId add(BlockId parent, std::span<const TokenId> tokens);
  /// Gives a block the sealed page of one layer, which it lacks.
  void give_page(BlockId id, std::size_t layer, PageId page);
  /// A sequence takes a block, or the root of its namespace, into its chain or out of it. Parents
  /// are taken before their children and given back after them.
  void use(BlockId id);
  void unuse(BlockId id);
  /// A hit that goes on from where a sequence of these users is now would need the block's pages of
  /// window layers, though the sequence itself may see them no longer.
  void need_window(BlockId id);
  void unneed_window(BlockId id);
  /// A block served a hit, or (kWindow) the end of one.
  void credit(BlockId id, BlockPart part) { ++part_of(id, part).frequency; }

  // --- Pages in tables; any page, whether a block has it or not

  void acquire_page(PageId page, std::size_t layer);
  void drop_page(PageId page, std::size_t layer);

  // --- Reclaiming

  /// Makes blocks go, least valuable first, until n_pages are free or nothing is left to go.
  void reclaim(std::size_t n_pages);
  std::size_t n_reclaimable() const { return pool_.n_cached() - pool_.n_cached_pinned(); }

  // --- Pins

  /// Refuses when more than half of all pages would be pinned.
  Result<PinId> pin(BlockId last, std::size_t first_window_page);
  bool unpin(PinId pin);

  // --- Looking

  const PrefixIndex& index() const { return index_; }
  LayerKind kind(std::size_t layer) const { return kinds_[layer]; }
  /// kNoPage if the block has none in this layer.
  PageId page(BlockId id, std::size_t layer) const {
    return pages_[id.value * kinds_.size() + layer];
  }
  const Block& block(BlockId id) const { return blocks_[id.value]; }
  const EvictionQueue& queue() const { return queue_; }
  const std::map<PinId, Pin>& pins() const { return pins_; }
  std::size_t pages_pinned() const { return pages_pinned_; }
  std::uint64_t n_evicted() const { return n_evicted_; }
  /// Whether a hit can still end in the block or shortly behind it: not without its pages of window
  /// layers. (A block that has no pages at all, as where every window is one token, saves nothing.)
  bool is_useful(BlockId id) const;

 private:
  Part& part_of(BlockId id, BlockPart part) {
    return blocks_[id.value].parts[static_cast<std::size_t>(part)];
  }
  void make_room_for(BlockId id);
  /// Sets the value of a part to what it is now.
  void revalue(BlockId id, BlockPart part);
  void enqueue(BlockId id, BlockPart part);
  void dequeue(BlockId id, BlockPart part);
  void enqueue_window_if_cached(BlockId id);
  void requeue_window(BlockId id);

  bool is_free_leaf(BlockId id) const;
  /// Queues a block or root that nobody needs any more, or removes it if it is of no use, and so
  /// on with its parents.
  void settle(BlockId id);
  void remove(BlockId id);
  void remove_window_pages(BlockId id);

  void add_pin(BlockId id, BlockPart part);
  void remove_pin(BlockId id, BlockPart part);
  void mark_pinned(BlockId id, BlockPart part, bool pinned);
  BlockPart part_in(std::size_t layer) const {
    return kinds_[layer] == LayerKind::kWindow ? BlockPart::kWindow : BlockPart::kBody;
  }
  std::size_t pages_in(BlockPart part) const {
    return part == BlockPart::kWindow ? n_window_layers_ : n_whole_layers_;
  }

  PagePool& pool_;
  PrefixIndex index_;
  std::size_t page_size_;
  std::vector<LayerKind> kinds_;  // [n_layers]
  std::size_t n_whole_layers_ = 0;
  std::size_t n_window_layers_ = 0;
  std::vector<Block> blocks_;  // [id]
  std::vector<PageId> pages_;  // [id, n_layers]
  EvictionQueue queue_;
  std::map<PinId, Pin> pins_;
  std::uint32_t next_pin_ = 0;
  std::size_t pages_pinned_ = 0;  // of pinned parts, whether they have them all or not
  std::uint64_t n_evicted_ = 0;
};

}  // namespace quire
