#pragma once
// First half of attention: scores of 16 tokens at a time (one lane each) and the online softmax.

#include "kernels/kernels.h"
#include "kernels/simd_math_inl.h"

namespace quire {
namespace {

constexpr std::size_t kBlockTiles = kAttentionBlock / kKvTile;
constexpr std::size_t kRowBatch = 32;       // rows that walk the pages together
constexpr std::size_t kExpandedDims = 256;  // largest head_dim whose K tile is converted once
/// Hint of a prefetch for the second cache: a block of K and V may be as large as the first.
constexpr int kIntoL2 = 2;
constexpr std::size_t kQueryPairs = kRowBatch * kExpandedDims;  // rounded query elements at a time

/// One (query token, head): where it reads, accumulates and how far it sees.
struct AttentionRow {
  const float* q;
  float* record;           // m, l, acc[head_dim]
  std::size_t begin, end;  // positions visible in this range
  std::size_t from, to;    // the part of it in the current block, relative to the block
};

struct AttentionBatch {
  const AttentionTask* task;
  std::size_t n_rows;
  AttentionRow rows[kRowBatch];
  alignas(64) float scores[kRowBatch][kAttentionBlock];  // then probabilities, if V is not paired
  // What products of bf16 pairs read: queries [n_rows, head_dim] where K is paired, probabilities
  // where V is.
  alignas(64) std::uint16_t queries[kQueryPairs];
  alignas(64) std::uint16_t weights[kRowBatch][kAttentionBlock];
  const std::byte* k_tiles[kBlockTiles + 1];  // and the one to ask for next
  const std::byte* v_rows[kAttentionBlock];
  // K tiles of the next block, and how much to ask for of them with each position that is mixed:
  // the weighted sum reads nothing from afar, so memory would idle. 0 where computing takes longer.
  const std::byte* ahead[kBlockTiles];
  std::size_t ahead_bytes;
};

/// Raw q.k of kRows rows against 16 tokens: K tile [head_dim][16], two chains over even and odd d.
template <typename Source, int kRows>
QUIRE_INLINE void score_rows(const typename Source::Type* k, std::size_t head_dim,
                             AttentionBatch& batch, std::size_t row, std::size_t tile) {
  const float* q[kRows];
  F32x16 even[kRows];
  F32x16 odd[kRows];
  for (int r = 0; r < kRows; ++r) {
    q[r] = batch.rows[row + static_cast<std::size_t>(r)].q;
    even[r] = splat(0);
    odd[r] = splat(0);
  }
  // The V rows of the tile and the next K tile are asked for while its scores are computed: each is
  // a stretch of its own that the hardware would have to discover.
  const std::byte* v = batch.v_rows[tile * kKvTile];
  const std::byte* next = batch.k_tiles[tile + 1];
  const std::size_t v_step = 2 * kKvTile * kv_type_bytes(batch.task->layout.v_type);
  constexpr std::size_t kStep = 2 * kKvTile * sizeof(typename Source::Type);
  for (std::size_t d = 0; d < head_dim; d += 2, k += 2 * kKvTile, v += v_step, next += kStep) {
    __builtin_prefetch(v, 0, kIntoL2);
    if (v_step > 64) __builtin_prefetch(v + 64, 0, kIntoL2);
    __builtin_prefetch(next, 0, kIntoL2);
    if (kStep > 64) __builtin_prefetch(next + 64, 0, kIntoL2);
    const F32x16 k0 = Source::read(k);
    const F32x16 k1 = Source::read(k + kKvTile);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      even[r] = fma(k0, splat(q[r][d]), even[r]);
      odd[r] = fma(k1, splat(q[r][d + 1]), odd[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    store(&batch.scores[row + static_cast<std::size_t>(r)][tile * kKvTile], even[r] + odd[r]);
  }
}

/// The same of bf16: K tile [head_dim / 2][16][2], two chains over even and odd pairs.
template <int kRows>
QUIRE_INLINE void score_paired_rows(const std::uint16_t* k, std::size_t head_dim,
                                    AttentionBatch& batch, std::size_t row, std::size_t tile) {
  const std::uint16_t* q[kRows];
  F32x16 even[kRows];
  F32x16 odd[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    q[r] = batch.queries + (row + static_cast<std::size_t>(r)) * head_dim;
    even[r] = splat(0);
    odd[r] = splat(0);
  }
  const std::byte* v = batch.v_rows[tile * kKvTile];
  const std::byte* next = batch.k_tiles[tile + 1];
  const std::size_t v_step = 4 * kKvTile * kv_type_bytes(batch.task->layout.v_type);
  std::size_t d = 0;
  for (; d + 4 <= head_dim; d += 4, k += 4 * kKvTile, v += v_step, next += 128) {
    __builtin_prefetch(v, 0, kIntoL2);
    __builtin_prefetch(v + 64, 0, kIntoL2);
    __builtin_prefetch(next, 0, kIntoL2);
    __builtin_prefetch(next + 64, 0, kIntoL2);
    const Pairs k0 = load_pairs(k);
    const Pairs k1 = load_pairs(k + 2 * kKvTile);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      even[r] = dot_pairs(even[r], k0, splat_pair(q[r] + d));
      odd[r] = dot_pairs(odd[r], k1, splat_pair(q[r] + d + 2));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    if (d < head_dim) even[r] = dot_pairs(even[r], load_pairs(k), splat_pair(q[r] + d));
    store(&batch.scores[row + static_cast<std::size_t>(r)][tile * kKvTile], even[r] + odd[r]);
  }
}

template <typename Source, int kRows>
QUIRE_INLINE std::size_t score_rows_from(const typename Source::Type* k, AttentionBatch& batch,
                                         std::size_t row, std::size_t tile) {
  if constexpr (kRows <= kMaxAttentionRows) {
    const std::size_t head_dim = batch.task->layout.head_dim;
    for (; row + kRows <= batch.n_rows; row += kRows) {
      if constexpr (Source::kPaired) {
        score_paired_rows<kRows>(k, head_dim, batch, row, tile);
      } else {
        score_rows<Source, kRows>(k, head_dim, batch, row, tile);
      }
    }
  }
  return row;
}

/// Rounds the queries of all rows to bf16.
void round_queries(AttentionBatch& batch) {
  const std::size_t head_dim = batch.task->layout.head_dim;
  for (std::size_t r = 0; r < batch.n_rows; ++r) {
    std::uint16_t* out = batch.queries + r * head_dim;
    std::size_t d = 0;
    for (; d + 16 <= head_dim; d += 16) store_rounded_bf16(out + d, load(batch.rows[r].q + d));
    if (d == head_dim) continue;
    std::uint16_t lanes[16];
    store_rounded_bf16(lanes, load_first(batch.rows[r].q + d, head_dim - d));
    for (std::size_t i = d; i < head_dim; ++i) out[i] = lanes[i - d];
  }
}

template <typename Source>
void score_tile(const typename Source::Type* k, AttentionBatch& batch, std::size_t tile) {
  std::size_t row = score_rows_from<Source, 6>(k, batch, 0, tile);
  row = score_rows_from<Source, 4>(k, batch, row, tile);
  row = score_rows_from<Source, 3>(k, batch, row, tile);
  row = score_rows_from<Source, 2>(k, batch, row, tile);
  score_rows_from<Source, 1>(k, batch, row, tile);
}

/// Converts the tile to f32 once when several groups of rows read it.
template <typename Source>
void score_tile_of(const std::byte* tile_bytes, AttentionBatch& batch, std::size_t tile) {
  const auto* k = reinterpret_cast<const typename Source::Type*>(tile_bytes);
  const std::size_t head_dim = batch.task->layout.head_dim;
  if (Source::kPaired || batch.n_rows <= kMaxAttentionRows || head_dim > kExpandedDims) {
    return score_tile<Source>(k, batch, tile);
  }
  if constexpr (!Source::kPaired) {
    alignas(64) float expanded[kExpandedDims * kKvTile];
    for (std::size_t d = 0; d < head_dim; ++d) {
      store(expanded + d * kKvTile, Source::read(k + d * kKvTile));
    }
    score_tile<SourceF32>(expanded, batch, tile);
  }
}

/// Turns a row's raw scores of the block into probabilities relative to its new maximum and
/// rescales what it gathered before.
/// `weights` is null or where to round them to bf16; their sum is then of what was rounded.
void softmax_row(const AttentionTask& task, AttentionRow& row, float* scores,
                 std::uint16_t* weights) {
  const int from = static_cast<int>(row.from);
  const int to = static_cast<int>(row.to);
  const int first_tile = from / 16;
  const int end_tile = (to + 15) / 16;
  const auto visible = [&](int tile) {
    const int begin = from - 16 * tile;
    const int end = to - 16 * tile;
    return lane_range(begin > 0 ? begin : 0, end < 16 ? end : 16);
  };
  const F32x16 nothing = splat(-__builtin_inff());
  const F32x16 factor = splat(task.scale);
  const F32x16 cap = splat(task.softcap);
  F32x16 top = nothing;
  for (int tile = first_tile; tile < end_tile; ++tile) {
    F32x16 s = load(scores + 16 * tile) * factor;
    if (task.softcap != 0) s = soft_capped(s, cap);
    s = select(visible(tile), s, nothing);
    store(scores + 16 * tile, s);
    top = max(top, s);
  }
  float& m = row.record[0];
  float& l = row.record[1];
  const float block_max = reduce_max(top);
  // A score of +infinity or NaN, or nothing but -infinity, gives NaN below, which reaches the
  // logits.
  const float new_max = m > block_max ? m : block_max;
  const F32x16 shift = splat(new_max);
  F32x16 total = splat(0);
  for (int tile = first_tile; tile < end_tile; ++tile) {
    F32x16 p = exp(load(scores + 16 * tile) - shift);  // e^-inf = 0 where nothing is seen
    if (weights != nullptr) {
      p = store_rounded_bf16(weights + 16 * tile, p);
    } else {
      store(scores + 16 * tile, p);
    }
    total = total + p;
  }
  alignas(64) float lanes[16];
  store(lanes, exp(splat(m) - shift));
  const float correction = lanes[0];
  l = l * correction + reduce_add(total);
  m = new_max;
  if (correction != 1.0f) {
    float* acc = row.record + 2;
    const F32x16 c = splat(correction);
    const std::size_t head_dim = task.layout.head_dim;
    std::size_t d = 0;
    for (; d + 16 <= head_dim; d += 16) store(acc + d, load(acc + d) * c);
    if (d < head_dim) {
      store_first(acc + d, load_first(acc + d, head_dim - d) * c, head_dim - d);
    }
  }
}

}  // namespace
}  // namespace quire
