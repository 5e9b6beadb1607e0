#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "kv/kv_types.h"

namespace quire {

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

/// Owns the pages of all sequences. Not thread-safe: the step thread owns it; kernels get raw
/// page pointers that stay valid while the reservation that covers them lives.
class KvManager {
 public:
  /// Refuses a budget that cannot hold one page of every layer, naming both numbers.
  static Result<KvManager> create(KvConfig config);
  KvManager(KvManager&&) noexcept;
  KvManager& operator=(KvManager&&) noexcept;
  ~KvManager();

  /// A sequence that shares nothing but with its forks.
  SequenceId add_sequence();
  /// One that publishes its full pages to all sequences of the same namespace, and may adopt
  /// theirs.
  SequenceId add_sequence(std::string_view prefix_namespace);
  /// A sequence that shares all pages of `parent`; the first write to a shared page copies it.
  Result<SequenceId> fork(SequenceId parent);

  /// All or nothing for every request; kOutOfMemory names the pages needed and the pages free.
  Result<Reservation> reserve(std::span<const SlotRequest> requests);

  /// Forgets tokens from `length` on. Refused if positions it makes visible again left a window.
  Status truncate(SequenceId sequence, std::size_t length);

  /// Drops every page; idempotent, unknown ids are ignored.
  void release(SequenceId sequence);

  /// How much of the first max_tokens of `tokens` the index has.
  PrefixMatch match_prefix(std::string_view prefix_namespace, std::span<const TokenId> tokens,
                           std::size_t max_tokens) const;
  /// Gives an empty sequence what match_prefix() finds, by reference; the number of tokens. Leave
  /// one token to compute: without it there are no logits.
  std::size_t adopt_prefix(SequenceId sequence, std::span<const TokenId> tokens,
                           std::size_t max_tokens);

  /// Keeps the whole blocks found of these tokens until they are unpinned. Refused when there are
  /// none (kNotFound) and when more than half of all pages would be pinned (kOutOfMemory).
  Result<PrefixPin> pin_prefix(std::string_view prefix_namespace, std::span<const TokenId> tokens);
  Status unpin(PinId pin);
  /// Drops everything cached that is neither in use nor pinned; the number of pages.
  std::size_t flush_cache();

  /// Pages that become available when the sequence is released.
  std::size_t own_pages(SequenceId sequence) const;
  /// Whether the next token copies the last pages because others refer to them.
  bool shares_tail(SequenceId sequence) const;

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
