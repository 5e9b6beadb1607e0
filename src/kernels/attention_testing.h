#pragma once
// Problems of attention with stored keys and values, for its tests.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/kernels_testing.h"

namespace quire::testing {

/// One attention layer over n_tokens stored positions, queried from `q_position` on.
struct Problem {
  KvType k_type = KvType::kF16;
  KvType v_type = KvType::kF16;
  std::size_t page_size = 16;
  std::size_t n_kv_heads = 2;
  std::size_t group = 3;
  std::size_t head_dim = 64;
  std::size_t n_tokens = 100;  // the last position a query sees is n_tokens - 1
  std::size_t n_q = 1;
  std::size_t window = 0;
  float softcap = 0;
  std::uint32_t seed = 1;
  float spread = 1;
  float q_spread = 2;  // times that

  std::size_t q_position() const { return n_tokens - n_q; }
  std::size_t row() const { return n_kv_heads * head_dim; }
  std::size_t q_row() const { return row() * group; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(head_dim)); }
  Floats k() const { return random_floats(n_tokens * row(), seed, spread); }
  Floats v() const { return random_floats(n_tokens * row(), seed + 1, spread); }
  Floats q() const { return random_floats(n_q * q_row(), seed + 2, q_spread * spread); }
};

/// Pages of exactly page_bytes each, so that a sanitizer sees reads past one; unwritten slots are
/// filled with NaN of every format.
struct Pages {
  KvLayout layout;
  std::vector<std::unique_ptr<std::byte[]>> memory;
  std::vector<const std::byte*> pointers;
};

inline Pages write_pages(const Kernels& table, const Problem& p, std::size_t dropped_pages = 0) {
  Pages out;
  out.layout = {p.k_type, p.v_type, static_cast<std::uint32_t>(p.n_kv_heads),
                static_cast<std::uint32_t>(p.head_dim), static_cast<std::uint32_t>(p.page_size)};
  const Floats k = p.k();
  const Floats v = p.v();
  for (std::size_t first = 0; first < p.n_tokens; first += p.page_size) {
    auto page = std::make_unique_for_overwrite<std::byte[]>(out.layout.page_bytes());
    std::memset(page.get(), 0xff, out.layout.page_bytes());
    for (std::size_t t = first; t < std::min(p.n_tokens, first + p.page_size); ++t) {
      table.kv_write(out.layout, page.get(), t - first, &k[t * p.row()], &v[t * p.row()]);
    }
    out.memory.push_back(std::move(page));
    out.pointers.push_back(out.memory.back().get());
  }
  out.pointers.erase(out.pointers.begin(),
                     out.pointers.begin() + static_cast<std::ptrdiff_t>(dropped_pages));
  return out;
}

/// n_q neighbouring tokens, the first of them `query`, over one split.
inline void attend_split(const Kernels& table, AttentionTask task, const Problem& p,
                         std::size_t split, const AttentionQuery& query, std::size_t n_q,
                         std::size_t record_stride) {
  std::vector<AttentionQuery> queries;
  for (std::size_t t = 0; t < n_q; ++t) {
    queries.push_back({.q = query.q + t * p.q_row(),
                       .position = query.position + t,
                       .records = query.records + t * p.group * record_stride});
  }
  task.queries = queries.data();
  task.n_queries = n_q;
  task.record_stride = record_stride;
  table.attend(task, {split * kAttentionSplit, (split + 1) * kAttentionSplit});
}

/// Of queries q: [n_q, heads, head_dim], handed over `tile` tokens at a time.
inline Floats attend(const Kernels& table, const Problem& p, const Floats& q,
                     std::size_t tile = kMaxQueryTile, bool drop_pages = false) {
  const std::size_t seen_from =
      p.window != 0 && p.q_position() + 1 > p.window ? p.q_position() + 1 - p.window : 0;
  const std::size_t dropped = drop_pages ? seen_from / p.page_size : 0;
  const Pages pages = write_pages(table, p, dropped);
  const std::size_t n_splits = p.n_tokens / kAttentionSplit + 1;
  const std::size_t size = attention_record_size(p.head_dim);
  Floats out(q.size(), -77);
  for (std::size_t first = 0; first < p.n_q; first += tile) {
    for (std::size_t h = 0; h < p.n_kv_heads; ++h) {
      AttentionTask task;
      task.layout = pages.layout;
      task.pages = pages.pointers.data();
      task.first_page = dropped;
      task.kv_head = h;
      task.group = p.group;
      task.window = p.window;
      task.scale = p.scale();
      task.softcap = p.softcap;
      const std::size_t n_q = std::min(tile, p.n_q - first);
      const std::size_t n_rows = n_q * p.group;
      Floats records(n_rows * n_splits * size);
      for (std::size_t s = 0; s < n_splits; ++s) {
        attend_split(table, task, p, s,
                     {.q = &q[first * p.q_row() + h * p.group * p.head_dim],
                      .position = p.q_position() + first,
                      .records = &records[s * size]},
                     n_q, n_splits * size);
      }
      for (std::size_t r = 0; r < n_rows; ++r) {
        const std::size_t token = first + r / p.group;
        const std::size_t head = h * p.group + r % p.group;
        table.merge_splits(&records[r * n_splits * size], n_splits, p.head_dim,
                           &out[token * p.q_row() + head * p.head_dim]);
      }
    }
  }
  return out;
}

inline Floats attend(const Kernels& table, const Problem& p, std::size_t tile = kMaxQueryTile,
                     bool drop_pages = false) {
  return attend(table, p, p.q(), tile, drop_pages);
}

}  // namespace quire::testing
