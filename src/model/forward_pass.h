#pragma once
// The stages of one forward pass. All workers run through them together; between stages that read
// what other workers wrote there is a barrier.

#include "model/attention.h"
#include "model/model.h"

namespace quire {

class ForwardPass {
 public:
  ForwardPass(const ModelSpec& spec, const ModelWeights& weights, const KvLayout& layout_types,
              const std::vector<RopeTable>& ropes, const Kernels& kernels, const ModelInput& input,
              std::size_t n_workers, Workspace& workspace);

  void run(ThreadPool::Worker& worker, float* logits);

  /// After run(): the lowest layer, and in it the first row, whose keys or values overflowed.
  std::optional<Overflow> first_overflow() const;

 private:
  using Worker = ThreadPool::Worker;

  AttentionLayer attention_layer(std::size_t layer) const;
  void embed(const Worker& worker);
  void attention_block(Worker& worker, std::size_t layer);
  void ffn_block(Worker& worker, std::size_t layer);
  void output_block(Worker& worker, float* logits);

  /// Norm of a residual row into `out`, quantized if one of the readers wants that.
  void norm_row(std::size_t row, const std::vector<float>& weight, bool int8);
  /// Bias, per-head norm and RoPE of a row's q and k; K and V into their page slots.
  void finish_qkv(const Worker& worker, std::size_t layer);
  /// residual += post_norm(projected), for this worker's rows.
  void add_projected(const Worker& worker, const Linear& from, const std::vector<float>& post_norm);
  /// One or several linear layers over the same input; panels are shared out as one range.
  struct Job {
    const Linear* linear;
    float* out;
  };
  void linears(const Worker& worker, std::span<const Job> jobs, const Activations& input,
               std::size_t n_rows);

  const ModelSpec& spec_;
  const ModelWeights& weights_;
  const KvLayout& layout_types_;
  const std::vector<RopeTable>& ropes_;
  const Kernels& k_;
  const ModelInput& in_;
  Workspace& ws_;
  std::size_t n_rows_;
};

}  // namespace quire
