#pragma once
// The invariants of docs/kv-contract.md over a copy of the whole state, so that a test can break a
// snapshot in every way and see that the right rule notices.

#include <cstddef>
#include <cstdint>
#include <optional>
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

struct SequenceSnapshot {
  std::uint32_t id = 0;
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
  const std::byte* arena = nullptr;
  std::vector<std::size_t> windows;   // [n_layers]
  std::vector<PagePool::Page> pages;  // taken at least once
  std::vector<PageId> free_list;
  std::vector<SequenceSnapshot> sequences;
  bool reservation_alive = false;
  std::vector<std::uint32_t> reserved_sequences;  // that the live reservation names
};

KvSnapshot take_snapshot(const KvState& kv);

/// Fails with kInvalidData and the number of the first rule that does not hold: "KV rule K3: ...".
Status check_invariants(const KvSnapshot& kv);

}  // namespace quire
