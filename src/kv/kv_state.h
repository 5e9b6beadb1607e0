#pragma once
// What a KvManager owns, as plain data that its parts (reservation.cc, validate.cc) work on. Only
// src/kv includes this.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kv/block_store.h"
#include "kv/kv_manager.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"

namespace quire {

/// What a reservation did to the tail page of one layer, and how to take it back.
struct TailChange {
  std::size_t layer = 0;
  /// The page that was copied. Its reference is kept until commit, so that it can be put back.
  std::optional<PageId> held;
  bool reopened = false;  // was sealed, is hot for the time of the reservation
};

/// The part of a live reservation that belongs to one sequence.
struct PendingSlots {
  std::size_t n_tokens = 0;               // 0: none; tokens [length, length + n_tokens) otherwise
  std::vector<std::size_t> pages_before;  // [n_layers] size of each table
  std::vector<TailChange> tails;
};

/// What a sequence shares through the prefix index.
struct SequencePrefix {
  BlockId root = kNoBlock;      // of its namespace; none: it shares nothing and the rest is empty
  std::vector<TokenId> tokens;  // committed and reserved
  std::vector<BlockId> chain;   // of every full page index; and of the last one, if it was taken
                                // in part and not written to since
  /// Index in the chain from which window layers matter to who goes on from its last whole block.
  std::size_t first_needed = 0;

  bool shares() const { return root != kNoBlock; }
};

struct SequenceState {
  std::size_t length = 0;  // committed tokens
  SequencePrefix prefix;
  std::vector<PageTable> tables;
  PendingSlots pending;
};

struct KvState;

/// The handle behind a Reservation. Either side may go first.
struct LiveReservation {
  KvState* kv = nullptr;  // null once the manager is gone
  std::vector<SequenceId> sequences;
};

struct KvState {
  KvState(KvConfig kv_config, PagePool page_pool)
      : config(std::move(kv_config)),
        page_size(config.layers.front().layout.page_size),
        pool(std::move(page_pool)),
        blocks(config, pool) {}
  KvState(const KvState&) = delete;
  KvState& operator=(const KvState&) = delete;
  ~KvState() {
    if (live != nullptr) live->kv = nullptr;
  }

  SequenceState* find(SequenceId id) {
    const auto it = sequences.find(id);
    return it == sequences.end() ? nullptr : &it->second;
  }
  const SequenceState* find(SequenceId id) const {
    const auto it = sequences.find(id);
    return it == sequences.end() ? nullptr : &it->second;
  }

  KvConfig config;
  std::size_t page_size;
  PagePool pool;
  BlockStore blocks;
  std::unordered_map<SequenceId, SequenceState> sequences;
  std::uint32_t next_id = 0;
  LiveReservation* live = nullptr;  // at most one
  std::uint64_t prefix_queries = 0;
  std::uint64_t prefix_query_tokens = 0;
  std::uint64_t prefix_hit_tokens = 0;
};

/// Takes the pages that `requests` need and fills in the pending slots of every sequence, or
/// changes nothing. Gives the sequences that got some.
Result<std::vector<SequenceId>> take_slots(KvState& kv, std::span<const SlotRequest> requests);

/// Makes the first n_tokens pending slots of one sequence part of it, at least one, and gives the
/// others back.
void commit_slots(KvState& kv, SequenceState& sequence, std::size_t n_tokens);

/// Gives the pending slots of one sequence back, as if they had never been taken.
void return_slots(KvState& kv, SequenceState& sequence);

}  // namespace quire
