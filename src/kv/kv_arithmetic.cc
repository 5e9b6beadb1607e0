#include "kv/kv_arithmetic.h"

#include <algorithm>
#include <optional>

namespace quire {
namespace {

// KvLayout::page_bytes() multiplies without looking; this says whether it may be called.
bool page_bytes_fit(const KvLayout& layout) {
  const std::uint64_t per_element = kv_type_bytes(layout.k_type) + kv_type_bytes(layout.v_type);
  // page_size is at most 128 and an element pair 8 bytes: 2^10 at most.
  const std::uint64_t per_dim = layout.page_size * per_element;
  const auto per_head = checked_mul<std::uint64_t>(per_dim, layout.head_dim);
  const auto page = per_head ? checked_mul<std::uint64_t>(*per_head, layout.n_kv_heads)
                             : std::optional<std::uint64_t>();
  return page && checked_add<std::uint64_t>(*page, kPageAlignment);
}

}  // namespace

Status check_kv_config(const KvConfig& config) {
  if (config.layers.empty())
    return fail(ErrorCode::kInvalidArgument, "a KV cache needs at least one layer, got none");
  const std::uint32_t page_size = config.layers.front().layout.page_size;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const KvLayout& layout = config.layers[i].layout;
    if (!is_valid_page_size(layout.page_size))
      return fail(ErrorCode::kInvalidArgument,
                  "KV page size must be 16, 32, 64 or 128 tokens; layer {} has {}", i,
                  layout.page_size);
    if (layout.page_size != page_size)
      return fail(ErrorCode::kInvalidArgument,
                  "all layers need one KV page size; layer 0 has {} tokens, layer {} has {}",
                  page_size, i, layout.page_size);
    if (layout.n_kv_heads == 0)
      return fail(ErrorCode::kInvalidArgument, "layer {} has 0 KV heads", i);
    if (layout.head_dim == 0)
      return fail(ErrorCode::kInvalidArgument, "layer {} has KV heads of 0 elements", i);
    if (!page_bytes_fit(layout))
      return fail(ErrorCode::kInvalidArgument,
                  "layer {}: a KV page of {} tokens, {} heads and {} elements a head is too large "
                  "to address",
                  i, layout.page_size, layout.n_kv_heads, layout.head_dim);
  }
  return {};
}

std::size_t kv_page_bytes(const KvConfig& config) {
  std::size_t largest = 0;
  for (const KvLayerSpec& layer : config.layers)
    largest = std::max(largest, layer.layout.page_bytes());
  return round_up(largest, kPageAlignment);
}

std::uint64_t kv_bytes_per_token(const KvConfig& config) {
  std::uint64_t bytes = 0;
  for (const KvLayerSpec& layer : config.layers) bytes += layer.layout.bytes_per_token();
  return bytes;
}

std::uint64_t kv_pages_for(const KvConfig& config, std::size_t length) {
  std::uint64_t pages = 0;
  for (const KvLayerSpec& layer : config.layers)
    pages += live_pages(length, layer.layout.page_size, layer.window);
  return pages;
}

std::uint64_t kv_bytes_for(const KvConfig& config, std::size_t length) {
  return kv_pages_for(config, length) * kv_page_bytes(config);
}

}  // namespace quire
