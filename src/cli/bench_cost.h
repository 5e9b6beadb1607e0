#pragma once
// What a model's forward passes must at least do, in bytes and multiply-adds, and how long that
// takes at the limits of the machine.

#include <cstddef>
#include <cstdint>

#include "cli/bench_cases.h"
#include "cli/roofline.h"
#include "kv/kv_manager.h"
#include "model/weights.h"

namespace quire {

/// Bytes that must be read and multiply-adds that must be done. Those of attention are left out:
/// they need not be f32, and grow with the depth, not with the weights.
struct BenchWork {
  std::uint64_t weight_bytes = 0;  // packed
  std::uint64_t kv_bytes = 0;
  std::uint64_t int8_macs = 0;  // of quantized matrices
  std::uint64_t f32_macs = 0;   // of all others

  std::uint64_t bytes() const { return weight_bytes + kv_bytes; }
  BenchWork& operator+=(const BenchWork& other);
  friend BenchWork operator*(BenchWork work, std::uint64_t factor);
  friend bool operator==(const BenchWork&, const BenchWork&) = default;
};

/// A model as the limits see it.
struct ModelCost {
  BenchWork layers;  // reading them once, computing them for one token
  /// The same of what only rows with logits need: the LM head, and the last layer but for its keys
  /// and values.
  BenchWork output;
  KvConfig kv;
};

ModelCost model_cost(const ModelWeights& weights, const KvConfig& kv);

/// Of one forward pass over `n_tokens` tokens of each of `batch` sequences that hold `position`
/// tokens, with `n_logits` rows of logits: none, or one for each sequence, of its last token. Each
/// weight is read once, and of each sequence what its tokens see of K and V, their own included; of
/// the last layer's, what the rows with logits see.
BenchWork pass_work(const ModelCost& cost, std::size_t batch, std::size_t position,
                    std::size_t n_tokens, std::size_t n_logits);

/// Of one sample of the case: of every chunk or step.
BenchWork case_work(const ModelCost& cost, const BenchCase& bench_case, std::size_t prefill_chunk);

/// Seconds that the work takes at least.
struct BenchLimit {
  double memory_s = 0;   // reading at the bandwidth of memory
  double compute_s = 0;  // multiplying at the peaks
  double seconds() const { return memory_s > compute_s ? memory_s : compute_s; }
};

BenchLimit work_limit(const BenchWork& work, const Roofline& roofline);

}  // namespace quire
