#include "cli/bench_cost.h"

#include <algorithm>

#include "kv/kv_arithmetic.h"

namespace quire {
namespace {

BenchWork matrix_work(const PackedMatrix& matrix) {
  BenchWork out;
  out.weight_bytes = matrix.bytes();
  const std::uint64_t macs = std::uint64_t{matrix.n_rows()} * matrix.n_cols();
  (matrix.wants_int8() ? out.int8_macs : out.f32_macs) = macs;
  return out;
}

/// What computing costs, without reading the weights.
BenchWork compute_only(BenchWork work) {
  work.weight_bytes = 0;
  return work;
}

}  // namespace

BenchWork& BenchWork::operator+=(const BenchWork& other) {
  weight_bytes += other.weight_bytes;
  kv_bytes += other.kv_bytes;
  int8_macs += other.int8_macs;
  f32_macs += other.f32_macs;
  return *this;
}

BenchWork operator*(BenchWork work, std::uint64_t factor) {
  work.weight_bytes *= factor;
  work.kv_bytes *= factor;
  work.int8_macs *= factor;
  work.f32_macs *= factor;
  return work;
}

ModelCost model_cost(const ModelWeights& weights, const KvConfig& kv) {
  ModelCost out;
  out.kv = kv;
  out.output = matrix_work(weights.output);
  for (const LayerWeights& layer : weights.layers) {
    const bool last = &layer == &weights.layers.back();
    for (const Linear* linear : {&layer.k, &layer.v}) out.layers += matrix_work(linear->weight);
    for (const Linear* linear : {&layer.q, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      (last ? out.output : out.layers) += matrix_work(linear->weight);
    }
  }
  return out;
}

BenchWork pass_work(const ModelCost& cost, std::size_t batch, std::size_t position,
                    std::size_t n_tokens, std::size_t n_logits) {
  BenchWork out = compute_only(cost.layers) * (batch * n_tokens);
  out += compute_only(cost.output) * n_logits;
  out.weight_bytes = cost.layers.weight_bytes + (n_logits > 0 ? cost.output.weight_bytes : 0);
  for (const KvLayerSpec& layer : cost.kv.layers) {
    const bool last = &layer == &cost.kv.layers.back();
    if (last && n_logits == 0) break;
    const std::size_t first_row = last ? position + n_tokens - 1 : position;
    const std::size_t seen = position + n_tokens - first_visible_position(first_row, layer.window);
    out.kv_bytes += batch * seen * layer.layout.bytes_per_token();
  }
  return out;
}

BenchWork case_work(const ModelCost& cost, const BenchCase& bench_case, std::size_t prefill_chunk) {
  BenchWork out;
  if (bench_case.is_prefill) {
    for (std::size_t done = 0; done < bench_case.prompt;) {
      const std::size_t n = std::min(prefill_chunk, bench_case.prompt - done);
      out += pass_work(cost, 1, done, n, done + n == bench_case.prompt ? 1 : 0);
      done += n;
    }
    return out;
  }
  for (std::size_t step = 0; step < bench_case.generate; ++step) {
    out += pass_work(cost, bench_case.batch, bench_case.depth + step, 1, bench_case.batch);
  }
  if (!bench_case.shared) return out;
  // What all see is read once. Of a window, sequences see different positions.
  const std::uint64_t again = bench_case.generate * (bench_case.batch - 1) * bench_case.depth;
  for (const KvLayerSpec& layer : cost.kv.layers) {
    if (layer.window == 0) out.kv_bytes -= again * layer.layout.bytes_per_token();
  }
  return out;
}

BenchLimit work_limit(const BenchWork& work, const Roofline& roofline) {
  const auto seconds = [](std::uint64_t amount, double per_second) {
    return amount == 0 ? 0.0 : static_cast<double>(amount) / per_second;
  };
  return {.memory_s = seconds(work.bytes(), roofline.memory_bytes),
          .compute_s = seconds(work.int8_macs, roofline.int8_macs) +
                       seconds(work.f32_macs, roofline.f32_macs)};
}

}  // namespace quire
