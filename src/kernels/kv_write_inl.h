#pragma once
// Storing the K and V of one token in a page.

#include "kernels/kernels.h"
#include "kernels/simd_math_inl.h"

namespace quire {
namespace {

/// n values to Source's type, `stride` elements apart.
template <typename Source>
QUIRE_INLINE void write_vector(const float* x, std::size_t n, typename Source::Type* out,
                               std::size_t stride) {
  typename Source::Type lanes[16];
  for (std::size_t d = 0; d < n; d += 16) {
    const std::size_t count = n - d < 16 ? n - d : 16;
    Source::write(lanes, count == 16 ? load(x + d) : load_first(x + d, count));
    for (std::size_t i = 0; i < count; ++i) out[(d + i) * stride] = lanes[i];
  }
}

void kv_write(const KvLayout& layout, std::byte* page, std::size_t slot, const float* k,
              const float* v) {
  const std::size_t head_dim = layout.head_dim;
  for (std::size_t h = 0; h < layout.n_kv_heads; ++h) {
    with_source(layout.k_type, [&](auto source) {
      using Source = decltype(source);
      auto* out = reinterpret_cast<typename Source::Type*>(page + layout.k_offset(h));
      out += slot / kKvTile * head_dim * kKvTile + slot % kKvTile;
      write_vector<Source>(k + h * head_dim, head_dim, out, kKvTile);
    });
    with_source(layout.v_type, [&](auto source) {
      using Source = decltype(source);
      auto* out = reinterpret_cast<typename Source::Type*>(page + layout.v_offset(h));
      write_vector<Source>(v + h * head_dim, head_dim, out + slot * head_dim, 1);
    });
  }
}

}  // namespace
}  // namespace quire
