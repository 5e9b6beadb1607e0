#pragma once
// The invariants of docs/kv-contract.md over a copy of the whole state, so that a test can break a
// snapshot in every way and see that the right rule notices.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kv/page_pool.h"

namespace quire {

struct KvState;

struct TableSnapshot {
  std::size_t first_page = 0;
  std::vector<PageId> pages;
  std::vector<const std::byte*> addresses;
  std::optional<PageId> held;  // the page a copied tail came from, while a reservation lives
};

struct BlockSnapshot {
  BlockId id;
  BlockId parent = kNoBlock;   // of the root of a namespace there is none
  std::size_t page_index = 0;  // the rest is not of roots, but for users and queued_body
  std::vector<TokenId> tokens;
  std::vector<PageId> pages;    // [n_layers], kNoPage where there is none
  BlockId found_as = kNoBlock;  // what the index finds for its parent and tokens
  std::uint32_t users = 0;
  std::uint32_t body_pins = 0;
  std::uint32_t window_pins = 0;
  std::uint32_t window_needs = 0;
  bool body_queued = false;
  bool window_queued = false;
};

struct PinSnapshot {
  BlockId last;
  std::size_t first_window_page = 0;
};

struct SequenceSnapshot {
  std::uint32_t id = 0;
  BlockId root = kNoBlock;
  std::vector<BlockId> chain;
  std::size_t first_needed = 0;
  std::vector<TokenId> tokens;  // only if there is a root
  std::size_t length = 0;
  std::size_t pending = 0;  // tokens reserved and not committed
  std::vector<TableSnapshot> tables;
};

struct KvSnapshot {
  std::size_t page_size = 0;
  std::size_t page_bytes = 0;
  std::size_t pages_total = 0;
  std::size_t pages_free = 0;  // as the pool counts them
  std::size_t pages_hot = 0;
  std::size_t pages_sealed = 0;
  std::size_t pages_cached = 0;
  std::size_t pages_cached_pinned = 0;
  std::size_t pages_pinned = 0;  // as pins count them
  std::size_t n_queued = 0;
  const std::byte* arena = nullptr;
  std::vector<std::size_t> windows;   // [n_layers]
  std::vector<PagePool::Page> pages;  // taken at least once
  std::vector<PageId> free_list;
  std::vector<SequenceSnapshot> sequences;
  std::vector<BlockSnapshot> blocks;  // and roots of namespaces
  std::vector<PinSnapshot> pins;
  bool reservation_alive = false;
  std::vector<std::uint32_t> reserved_sequences;  // that the live reservation names
};

/// The failure of one rule.
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> broken(int rule, fmt::format_string<Args...> format,
                                           Args&&... args) {
  return fail(ErrorCode::kInvalidData, "KV rule K{}: {}", rule,
              fmt::format(format, std::forward<Args>(args)...));
}

KvSnapshot take_snapshot(const KvState& kv);

/// Fails with kInvalidData and the number of the first rule that does not hold: "KV rule K3: ...".
Status check_invariants(const KvSnapshot& kv);

/// The rules about blocks, K11 and on, for check_invariants(). References have been counted.
Status check_blocks(const KvSnapshot& kv);

}  // namespace quire
