#pragma once
// Storing the K and V of one token in a page.

#include "kernels/kernels.h"
#include "kernels/simd_math_inl.h"

namespace quire {
namespace {

/// n values to Source's type, element i at out[place(i)]. `top` becomes the largest of itself and
/// the bits of their magnitudes, which order as the magnitudes do, NaN above infinity.
template <typename Source, typename Place>
QUIRE_INLINE void write_vector(const float* x, std::size_t n, typename Source::Type* out,
                               Place place, I32x16& top) {
  typename Source::Type lanes[16];
  for (std::size_t d = 0; d < n; d += 16) {
    const std::size_t count = n - d < 16 ? n - d : 16;
    const F32x16 values = count == 16 ? load(x + d) : load_first(x + d, count);
    top = max(top, magnitude_bits(values));
    if constexpr (Source::kPaired) {
      store_rounded_bf16(lanes, values);
    } else {
      Source::write(lanes, values);
    }
    for (std::size_t i = 0; i < count; ++i) out[place(d + i)] = lanes[i];
  }
}

bool kv_write(const KvLayout& layout, std::byte* page, std::size_t slot, const float* k,
              const float* v) {
  const std::size_t head_dim = layout.head_dim;
  I32x16 k_top = splat_int(0);
  I32x16 v_top = splat_int(0);
  for (std::size_t h = 0; h < layout.n_kv_heads; ++h) {
    with_source(layout.k_type, [&](auto source) {
      using Source = decltype(source);
      auto* out = reinterpret_cast<typename Source::Type*>(page + layout.k_offset(h));
      const auto place = [&](std::size_t d) { return k_place(Source::kPaired, head_dim, slot, d); };
      write_vector<Source>(k + h * head_dim, head_dim, out, place, k_top);
    });
    with_source(layout.v_type, [&](auto source) {
      using Source = decltype(source);
      auto* out = reinterpret_cast<typename Source::Type*>(page + layout.v_offset(h));
      const auto place = [&](std::size_t d) { return v_place(Source::kPaired, head_dim, slot, d); };
      write_vector<Source>(v + h * head_dim, head_dim, out, place, v_top);
    });
  }
  bool fits = true;
  with_source(layout.k_type,
              [&](auto source) { fits &= reduce_max(k_top) < source.kOverflowBits; });
  with_source(layout.v_type,
              [&](auto source) { fits &= reduce_max(v_top) < source.kOverflowBits; });
  return fits;
}

}  // namespace
}  // namespace quire
