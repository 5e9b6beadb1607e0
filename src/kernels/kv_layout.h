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

/// A page is [n_kv_heads] x { K: [page_size / 16][head_dim][16], V: [page_size][head_dim] }.
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
