#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/kv_layout.h"

namespace quire {

using SequenceId = StrongId<struct SequenceTag>;

struct KvLayerSpec {
  KvLayout layout;
  std::size_t window = 0;  // 0: every position stays visible; else only the last `window`
};

struct KvConfig {
  std::vector<KvLayerSpec> layers;  // all with the same page_size
  std::uint64_t budget_bytes = 0;
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
  std::uint64_t bytes_used = 0;  // pages in use * page_bytes
};

class KvManager;

/// Room for the next tokens of some sequences, taken but not yet visible. Destroying it without
/// commit() gives everything back.
class Reservation {
 public:
  Reservation(Reservation&&) noexcept;
  Reservation& operator=(Reservation&&) noexcept;
  ~Reservation();

  /// Lengths advance, full pages are sealed, pages that left a window are freed.
  void commit();

  /// The same with only the first n_tokens[i] tokens of request i: the rest was never there, and
  /// the pages only it needed go back. At most what was reserved; what became of a sequence
  /// released in between is ignored.
  void commit(std::span<const std::size_t> n_tokens);

 private:
  friend class KvManager;
  struct State;
  explicit Reservation(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct SlotRequest {
  SequenceId sequence;
  std::size_t n_tokens = 0;
};

/// Owns the pages of all sequences. Not thread-safe: the step thread owns it; kernels get raw
/// page pointers that stay valid while the reservation that covers them lives.
class KvManager {
 public:
  /// Refuses a budget that cannot hold one page of every layer, naming both numbers.
  static Result<KvManager> create(KvConfig config);
  KvManager(KvManager&&) noexcept;
  KvManager& operator=(KvManager&&) noexcept;
  ~KvManager();

  SequenceId add_sequence();
  /// A sequence that shares all pages of `parent`; the first write to a shared page copies it.
  Result<SequenceId> fork(SequenceId parent);

  /// All or nothing for every request; kOutOfMemory names the pages needed and the pages free.
  Result<Reservation> reserve(std::span<const SlotRequest> requests);

  /// Forgets tokens from `length` on. Refused if positions it makes visible again left a window.
  Status truncate(SequenceId sequence, std::size_t length);

  /// Drops every page; idempotent, unknown ids are ignored.
  void release(SequenceId sequence);

  std::size_t length(SequenceId sequence) const;  // committed tokens
  /// With the reserved pages while a reservation for the sequence is alive.
  PageTableView table(SequenceId sequence, std::size_t layer) const;

  const KvConfig& config() const;
  KvStats stats() const;
  /// Every invariant of docs/kv-contract.md, checked over the whole state.
  Status validate() const;

 private:
  struct Impl;
  explicit KvManager(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
