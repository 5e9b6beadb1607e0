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

  /// `out` as Model::forward() has it.
  void run(ThreadPool::Worker& worker, float* out);

  /// After run(): the lowest layer, and in it the first row, whose keys or values overflowed.
  std::optional<Overflow> first_overflow() const;

 private:
  using Worker = ThreadPool::Worker;

  /// The rows a worker is responsible for outside the products, and where they are. Of one or two
  /// rows, everyone computes all: that is cheaper than to wait.
  struct Rows {
    Range range;
    RowState& state;
  };
  Rows rows_of(const Worker& worker) const;
  void barrier_unless_replicated(Worker& worker) const;

  AttentionLayer attention_layer(std::size_t layer) const;
  void resize(RowState& state);
  /// Moves the rows that matter behind the keys and values of the last layer to the front, and goes
  /// on with them alone. For one worker, between barriers.
  void keep_logit_rows();
  void embed(const Worker& worker);
  /// Queries, and keys and values in their pages.
  void attention_input(Worker& worker, std::size_t layer);
  /// Attention over the pages and its projection.
  void attention_output(Worker& worker, std::size_t layer);
  void ffn_block(Worker& worker, std::size_t layer);
  void output_block(Worker& worker, float* logits);
  void hidden_block(Worker& worker, float* out);

  /// Norms of residual rows into `hidden`, quantized if one of the readers wants that.
  void norm_rows(const Worker& worker, const std::vector<float>& weight, bool int8);
  /// Per-head norm and RoPE of a row's q and k; K and V into their page slots.
  void finish_qkv(const Worker& worker, std::size_t layer);
  /// residual += post_norm(projected), for this worker's rows.
  void add_projected(const Worker& worker, const std::vector<float>& post_norm);
  /// Asks for the beginning of what this worker will read of these layers, so that memory is busy
  /// while workers wait for each other. Worth it where reading weights is nearly all there is to
  /// do.
  void prefetch(const Worker& worker, std::span<const Linear* const> layers) const;
  /// One or several linear layers over the same input, with their biases; panels are shared out as
  /// one range.
  struct Job {
    const Linear* linear;
    float* out;
  };
  void linears(const Worker& worker, std::span<const Job> jobs, const ActivationView& input);

  const ModelSpec& spec_;
  const ModelWeights& weights_;
  const KvLayout& layout_types_;
  const std::vector<RopeTable>& ropes_;
  const Kernels& k_;
  const ModelInput* in_;
  Workspace& ws_;
  std::size_t n_rows_;
  std::optional<ModelInput> logit_input_;  // behind the keys and values of the last layer
  std::size_t max_q_dim_ = 0;
  std::size_t max_ffn_ = 0;
  bool replicated_;
};

}  // namespace quire
