#pragma once
// How many pages and bytes a sequence takes. Pure arithmetic on sizes, shared by the KV manager,
// its validator and every place that shows or plans memory, so that the figures cannot disagree.

#include <cstddef>
#include <cstdint>

#include "base/math.h"
#include "base/result.h"
#include "kv/kv_manager.h"

namespace quire {

/// Pages start on cache lines, so that a page is never split between two owners' lines.
inline constexpr std::size_t kPageAlignment = 64;

/// Longest sequence a reservation may reach; keeps every sum of pages far from overflow.
inline constexpr std::size_t kMaxSequenceLength = std::size_t{1} << 31;

constexpr bool is_valid_page_size(std::size_t page_size) {
  return page_size == 16 || page_size == 32 || page_size == 64 || page_size == 128;
}

/// Pages of one layer that hold positions [0, length).
constexpr std::size_t pages_for(std::size_t length, std::size_t page_size) {
  return ceil_div(length, page_size);
}

/// The first committed position that the next token (at position `length`) sees in a layer of
/// window `window`: a token at p sees (p - window, p], and everything if window is 0.
constexpr std::size_t first_visible_position(std::size_t length, std::size_t window) {
  return window == 0 || length + 1 <= window ? 0 : length + 1 - window;
}

/// Pages that stay in one layer once `length` tokens are committed.
constexpr std::size_t live_pages(std::size_t length, std::size_t page_size, std::size_t window) {
  return pages_for(length, page_size) - first_visible_position(length, window) / page_size;
}

/// Refuses an empty or contradictory configuration, naming the layer and the field. What it lets
/// through has page sizes that fit 64 bits.
Status check_kv_config(const KvConfig& config);

// The rest expects a configuration that check_kv_config accepts.

/// Bytes of one page: the largest of all layers, rounded up to kPageAlignment.
std::size_t kv_page_bytes(const KvConfig& config);

/// Bytes of K and V that one more token adds over all layers, before any page is rounded up and
/// before window layers give pages back.
std::uint64_t kv_bytes_per_token(const KvConfig& config);

/// Pages over all layers that an unshared sequence of `length` committed tokens keeps.
std::uint64_t kv_pages_for(const KvConfig& config, std::size_t length);

/// The same in bytes: whole pages, as they count against the budget.
std::uint64_t kv_bytes_for(const KvConfig& config, std::size_t length);

}  // namespace quire
