#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/kernels.h"
#include "model/attention_plan.h"
#include "model/model_input.h"

namespace quire {

/// Input rows of the linear layers of one stage, in f32 and, where a packed format reads it, int8.
class Activations {
 public:
  void resize(std::size_t n_rows, std::size_t n_cols) {
    n_cols_ = n_cols;
    f32_.resize(n_rows * n_cols);
    int8_.resize(n_rows, n_cols);
  }

  float* row(std::size_t i) { return f32_.data() + i * n_cols_; }

  /// Fills the int8 form of row i from its f32 form.
  void quantize(const Kernels& k, std::size_t i) { k.quantize_row(row(i), i, int8_.view()); }

  ActivationView view() const {
    return {.f32 = f32_.data(), .f32_stride = n_cols_, .int8 = int8_.view()};
  }

 private:
  std::size_t n_cols_ = 0;
  ScratchArray<float> f32_;
  Int8Buffer int8_;
};

/// Where keys or values were not finite in the type of the cache.
struct Overflow {
  std::size_t layer = 0;
  std::size_t row = 0;
  auto operator<=>(const Overflow&) const = default;
};

/// What rows carry from stage to stage outside the products of all workers.
struct RowState {
  ScratchArray<float> residual;  // [n_rows, hidden]
  Activations hidden;            // normed input of attention and FFN, [n_rows, hidden]
  Int8Buffer attention;          // [n_rows, n_heads * head_dim]
  Int8Buffer ffn;                // [n_rows, ffn]
  ScratchArray<float> ffn_f32;   // the same in f32, of replicated rows only
  Activations output;            // [n_logit_rows, hidden]
};

/// Scratch of a forward pass, grown to the largest pass so far.
struct Workspace {
  RowState shared;                 // each worker fills its share of the rows
  std::vector<RowState> replicas;  // or, of one or two rows, each worker all of its own copy
  ScratchArray<float> q;           // [n_rows, n_heads * head_dim]
  ScratchArray<float> k, v;        // [n_rows, n_kv_heads * head_dim]
  ScratchArray<float> attention;   // [n_rows, n_heads * head_dim]
  ScratchArray<float> projected;   // [n_rows, hidden], output of the o and down projections
  ScratchArray<float> gate, up;    // [n_rows, ffn]
  std::vector<ScratchArray<float>> cos, sin;        // per RopeSpec: [n_rows, rope_dim / 2]
  std::vector<std::size_t> positions;               // [n_rows]
  std::vector<AttentionPlan> attention_plans;       // [n_layers]
  ScratchArray<float> split_records;                // attention records shared by the workers
  std::vector<ScratchArray<float>> worker_records;  // attention records of each worker
  std::vector<std::optional<Overflow>> overflows;   // the first each worker met
  LogitRowsStorage logit_rows;
};

}  // namespace quire
