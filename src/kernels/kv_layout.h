#pragma once
// How one page (page_size token slots of one layer) lies in memory. The kernels read it, the page
// pool only needs its size.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

enum class KvType : std::uint8_t { kF32, kF16, kBF16 };

std::string_view kv_type_name(KvType type);
std::optional<KvType> parse_kv_type(std::string_view name);
constexpr std::size_t kv_type_bytes(KvType type) { return type == KvType::kF32 ? 4 : 2; }

/// Slots per key tile: one SIMD lane per token, so that a tile of scores needs no horizontal sums.
inline constexpr std::size_t kKvTile = 16;

/// Whether two neighbours lie together: products are made of pairs of bf16, in K of two dimensions,
/// in V of two tokens.
constexpr bool kv_type_is_paired(KvType type) { return type == KvType::kBF16; }

/// Where element d of token slot `slot` lies in the K part of a page and head, in elements:
/// [page_size / 16][head_dim][16], paired [page_size / 16][head_dim / 2][16][2].
constexpr std::size_t k_place(bool paired, std::size_t head_dim, std::size_t slot, std::size_t d) {
  const std::size_t tile = slot / kKvTile * head_dim * kKvTile;
  if (!paired) return tile + d * kKvTile + slot % kKvTile;
  return tile + (d / 2 * kKvTile + slot % kKvTile) * 2 + d % 2;
}
/// The same in the V part: [page_size][head_dim], paired [page_size / 2][head_dim][2].
constexpr std::size_t v_place(bool paired, std::size_t head_dim, std::size_t slot, std::size_t d) {
  return paired ? (slot / 2 * head_dim + d) * 2 + slot % 2 : slot * head_dim + d;
}

/// A page is [n_kv_heads] x { K, V }, each as k_place() and v_place() say.
struct KvLayout {
  KvType k_type = KvType::kF16;
  KvType v_type = KvType::kF16;
  std::uint32_t n_kv_heads = 0;
  std::uint32_t head_dim = 0;    // of K and V alike
  std::uint32_t page_size = 16;  // token slots: 16, 32, 64 or 128

  constexpr std::size_t k_bytes() const {
    return std::size_t{page_size} * head_dim * kv_type_bytes(k_type);
  }
  constexpr std::size_t v_bytes() const {
    return std::size_t{page_size} * head_dim * kv_type_bytes(v_type);
  }
  constexpr std::size_t k_offset(std::size_t kv_head) const {
    return kv_head * (k_bytes() + v_bytes());
  }
  constexpr std::size_t v_offset(std::size_t kv_head) const {
    return k_offset(kv_head) + k_bytes();
  }
  constexpr std::size_t page_bytes() const { return k_offset(n_kv_heads); }
  /// Bytes of K and V of one token in one layer.
  constexpr std::size_t bytes_per_token() const { return page_bytes() / page_size; }
};

}  // namespace quire
