#pragma once
// The one table of numeric kernels. Each instruction-set tier fills a table; one is chosen at
// start-up by what the CPU has, or by QUIRE_ISA with a name of tiers.h. All tiers give
// bit-identical results.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/activations.h"
#include "kernels/kv_layout.h"
#include "kernels/packed_matrix.h"

namespace quire {

/// Input rows of a linear layer: [n_tokens, n_cols] in f32, int8 or both (the packed format says
/// which it reads, PackedMatrix::wants_int8).
struct ActivationView {
  const float* f32 = nullptr;  // row t at t * f32_stride
  std::size_t f32_stride = 0;
  Int8Activations int8;
};

/// One query token, as seen by one KV head.
struct AttentionQuery {
  const float* q = nullptr;  // [group, head_dim], already rotated
  std::size_t position = 0;  // it sees the positions up to its own
  float* records = nullptr;  // what head h gathers, at h * AttentionTask::record_stride
};

/// Attention of a few query tokens over pages of one KV head that they all see: neighbours in one
/// sequence, or tokens of sequences that share these pages.
struct AttentionTask {
  KvLayout layout;
  const std::byte* const* pages =
      nullptr;  // pages[i] holds positions (first_page + i) * page_size …
  std::size_t first_page = 0;
  std::size_t kv_head = 0;
  std::size_t group = 1;  // query heads that share the KV head
  const AttentionQuery* queries = nullptr;
  std::size_t n_queries = 0;  // at most kMaxQueryTile
  std::size_t record_stride = 0;
  std::size_t window = 0;  // 0: all; else a token at p sees (p - window, p]
  float scale = 1;         // of q.k before the softmax
  float softcap = 0;       // 0: none; else cap * tanh(score / cap)
};

inline constexpr std::size_t kMaxQueryTile = 8;
/// Attention is reduced per split of this many absolute positions, splits are merged in order: the
/// result depends on neither chunking, page size nor threads.
inline constexpr std::size_t kAttentionSplit = 512;
/// Positions of one step of the online softmax inside a split. Every page size divides it.
inline constexpr std::size_t kAttentionBlock = 128;

/// What one (query token, head) gathered over one split: running maximum, sum of exponentials and
/// the unnormalised output. Stored as [m, l, acc[head_dim]].
constexpr std::size_t attention_record_size(std::size_t head_dim) { return head_dim + 2; }

/// Tokens of dot_peak().
inline constexpr std::size_t kDotPeakTokens = 12;

enum class RopeStyle : std::uint8_t {
  kAdjacent,  // pairs (2i, 2i+1): GGUF "llama" weights
  kHalves,    // pairs (i, i + rope_dim/2): GPT-NeoX, Qwen, Gemma
};

struct Kernels {
  std::string_view name;

  /// x [n_cols] becomes token `token` of `out`, whose n_blocks is n_cols / 32: one scale per 32
  /// columns, round to nearest even, a second term for outlier lines (activations.h).
  void (*quantize_row)(const float* x, std::size_t token, const Int8Activations& out);

  /// y[t, r] = sum_c w[r, c] * x[t, c] for the rows of `panels` and the tokens of `tokens`.
  /// Rows past n_rows are not written.
  void (*linear)(const PackedMatrix& w, const ActivationView& x, Range panels, Range tokens,
                 float* y, std::size_t y_stride);

  /// y = x / rms(x) * weight; weight may be null (ones). In place is fine. All NaN when the squares
  /// overflow.
  void (*rms_norm)(const float* x, const float* weight, float eps, std::size_t n, float* y);

  /// Rotates the first rope_dim of each of n_heads vectors; cos and sin are [rope_dim / 2].
  void (*rope)(float* x, std::size_t n_heads, std::size_t head_dim, std::size_t rope_dim,
               RopeStyle style, const float* cos, const float* sin);

  void (*add)(const float* x, float* y, std::size_t n);  // y += x
  void (*scale)(float factor, float* y, std::size_t n);  // y *= factor
  /// y = activation(gate) * up; y may be gate.
  void (*silu_mul)(const float* gate, const float* up, float* y, std::size_t n);
  void (*gelu_tanh_mul)(const float* gate, const float* up, float* y, std::size_t n);
  /// y = cap * tanh(y / cap); NaN for infinity
  void (*softcap)(float cap, float* y, std::size_t n);

  /// Stores K and V [n_kv_heads, head_dim] of one token into slot `slot` of a page. False when a
  /// value is not finite in the type it is stored in; the slot then holds infinity or NaN.
  bool (*kv_write)(const KvLayout& layout, std::byte* page, std::size_t slot, const float* k,
                   const float* v);

  /// Folds `positions` of one split into the records of a task's queries. They begin at a block;
  /// at the first of the split records are begun, else continued from there. Without a visible
  /// position a record stays m = -inf, l = 0.
  void (*attend)(const AttentionTask& task, Range positions);

  /// Folds n_splits consecutive records (each attention_record_size apart) in order: out
  /// [head_dim].
  void (*merge_splits)(const float* records, std::size_t n_splits, std::size_t head_dim,
                       float* out);

  /// Nothing but int8 multiply-adds, to measure how many there are at best: out[t, r] = n_rounds *
  /// sum_c w[c / 4, r, c % 4] * x[t, c] for kDotPeakTokens tokens, 16 rows and 8 columns; the
  /// weights [2, 16, 4] are within 0 and 15. Sums must fit 32 bits.
  void (*dot_peak)(const std::byte* weights, const std::int8_t* x, std::size_t n_rounds,
                   std::int32_t* out);

  /// The same of bf16 pairs, null in tiers without an instruction for them: out[t, r] = n_rounds *
  /// sum_c w[c / 2, r, c % 2] * x[t, c] for kDotPeakTokens tokens, 16 rows and 4 columns.
  void (*pair_peak)(const std::uint16_t* weights, const std::uint16_t* x, std::size_t n_rounds,
                    float* out);
};

/// The table in use: the best tier this CPU runs, unless QUIRE_ISA names another.
const Kernels& kernels();
/// The same, to be asked first where a person set QUIRE_ISA: an error if it cannot be followed.
Result<const Kernels*> requested_kernels();
/// The tier of that name, the best one for "".
Result<const Kernels*> select_kernels(std::string_view isa);
/// Every tier this CPU runs, scalar first; for tests that compare them.
std::span<const Kernels* const> available_kernels();

}  // namespace quire
