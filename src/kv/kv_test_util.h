#pragma once
// Small KV managers and recognisable contents, for tests only.

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "kv/kv_manager.h"

namespace quire::testing {

/// Layers of 2 heads x 2 elements in f32: a page of 16 tokens is 16 * 2 * 2 * 2 * 4 = 512 bytes.
inline KvConfig small_config(const std::vector<std::size_t>& windows, std::size_t n_pages,
                             std::uint32_t page_size = 16) {
  KvConfig config;
  for (const std::size_t window : windows)
    config.layers.push_back({{.k_type = KvType::kF32,
                              .v_type = KvType::kF32,
                              .n_kv_heads = 2,
                              .head_dim = 2,
                              .page_size = page_size},
                             window});
  config.budget_bytes = n_pages * config.layers.front().layout.page_bytes();
  return config;
}

/// Calls visit(element) with the address of every element of K and V of one slot.
template <typename Visit>
void for_each_element(std::byte* page, const KvLayout& layout, std::size_t slot, Visit visit) {
  for (std::size_t head = 0; head < layout.n_kv_heads; ++head)
    for (std::size_t d = 0; d < layout.head_dim; ++d) {
      const std::size_t k = ((slot / kKvTile) * layout.head_dim + d) * kKvTile + slot % kKvTile;
      const std::size_t v = slot * layout.head_dim + d;
      visit(page + layout.k_offset(head) + k * sizeof(std::uint32_t));
      visit(page + layout.v_offset(head) + v * sizeof(std::uint32_t));
    }
}

inline std::byte* page_of(const KvManager& kv, SequenceId sequence, std::size_t layer,
                          std::size_t position) {
  const PageTableView table = kv.table(sequence, layer);
  return table.pages[position / kv.stats().page_size - table.first_page];
}

/// Fills the slot of `position` in every layer with values made from `tag`.
inline void write_slot(const KvManager& kv, SequenceId sequence, std::size_t position,
                       std::uint32_t tag) {
  for (std::size_t layer = 0; layer < kv.config().layers.size(); ++layer) {
    std::uint32_t value = tag * 64 + static_cast<std::uint32_t>(layer) * 8;
    for_each_element(page_of(kv, sequence, layer, position), kv.config().layers[layer].layout,
                     position % kv.stats().page_size, [&](std::byte* element) {
                       std::memcpy(element, &value, sizeof(value));
                       ++value;
                     });
  }
}

/// Whether the slot of `position` in one layer still has what write_slot(tag) put there.
inline bool slot_has(const KvManager& kv, SequenceId sequence, std::size_t layer,
                     std::size_t position, std::uint32_t tag) {
  bool same = true;
  std::uint32_t value = tag * 64 + static_cast<std::uint32_t>(layer) * 8;
  for_each_element(page_of(kv, sequence, layer, position), kv.config().layers[layer].layout,
                   position % kv.stats().page_size, [&](std::byte* element) {
                     std::uint32_t found = 0;
                     std::memcpy(&found, element, sizeof(found));
                     same = same && found == value;
                     ++value;
                   });
  return same;
}

/// For sequences that share nothing: their tokens are counted and never read, so that there can be
/// more of them than memory.
inline std::span<const TokenId> any_tokens(std::size_t n) {
  static constexpr TokenId kToken = 0;
  return {&kToken, n};
}

inline SlotRequest slots(SequenceId sequence, std::size_t n) { return {sequence, any_tokens(n)}; }

/// Reserves, writes tags first_tag, first_tag + 1, ... and commits.
inline Status append(KvManager& kv, SequenceId sequence, std::size_t n,
                     std::uint32_t first_tag = 0) {
  const SlotRequest request = slots(sequence, n);
  auto reservation = kv.reserve({&request, 1});
  if (!reservation) return fail(reservation.error());
  for (std::size_t i = 0; i < n; ++i)
    write_slot(kv, sequence, kv.length(sequence) + i, first_tag + static_cast<std::uint32_t>(i));
  reservation->commit();
  return {};
}

}  // namespace quire::testing
