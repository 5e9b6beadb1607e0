#pragma once
// What goes into the KV manager and comes out of it, as plain data.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kernels/kv_layout.h"

namespace quire {

using SequenceId = StrongId<struct SequenceTag>;
using PinId = StrongId<struct PinTag>;

struct KvLayerSpec {
  KvLayout layout;
  std::size_t window = 0;  // 0: every position stays visible; else only the last `window`
};

struct KvConfig {
  std::vector<KvLayerSpec> layers;  // all with the same page_size
  std::uint64_t budget_bytes = 0;
  unsigned prefix_name_bits = 64;  // of the names of cached blocks; tests make them collide
};

/// Where the K and V of one sequence in one layer lie. pages[i] holds positions
/// (first_page + i) * page_size and on; pages before first_page have left the window.
struct PageTableView {
  std::span<std::byte* const> pages;
  std::size_t first_page = 0;
};

struct KvStats {
  std::size_t page_size = 0;
  std::size_t page_bytes = 0;
  std::size_t pages_total = 0;  // that the budget allows
  std::size_t pages_free = 0;
  std::size_t pages_hot = 0;
  std::size_t pages_sealed = 0;
  std::size_t pages_cached = 0;     // that only the prefix index refers to
  std::size_t pages_available = 0;  // free, or cached and not pinned: what reserve() can have
  std::size_t pages_pinned = 0;     // that pins keep, cached or not
  std::uint64_t bytes_used = 0;     // hot and sealed pages * page_bytes

  std::size_t prefix_blocks = 0;
  std::size_t prefix_namespaces = 0;
  std::uint64_t prefix_blocks_evicted = 0;
  std::uint64_t prefix_queries = 0;       // adoptions asked for
  std::uint64_t prefix_query_tokens = 0;  // that could have been found by them
  std::uint64_t prefix_hit_tokens = 0;    // that were
};

/// What the prefix index has of some tokens.
struct PrefixMatch {
  std::size_t n_tokens = 0;
  std::size_t reclaimable_pages = 0;  // of it, and no longer once it is adopted
};

struct PrefixPin {
  PinId id;
  std::size_t n_tokens = 0;  // whole blocks
};

/// The next tokens of one sequence. They are read during the call only; of a sequence that shares
/// nothing they are merely counted.
struct SlotRequest {
  SequenceId sequence;
  std::span<const TokenId> tokens;
};

}  // namespace quire
