#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "kv/kv_manager.h"
#include "model/gguf.h"
#include "model/model_input.h"
#include "model/model_spec.h"
#include "model/rope_table.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace quire {

/// The weights of a decoder-only transformer and the pass over them. K and V of the input tokens
/// are written to the pages, then attended together with what is there, so that splitting a prompt
/// into chunks changes no bit of the result.
class Model {
 public:
  /// `file` must outlive the model: embedding rows are read from its mapping.
  static Result<Model> load(const GgufFile& file, ModelSpec spec, KvLayout layout_types,
                            Precision precision, ThreadPool& pool,
                            const std::function<void(double)>& progress);

  const ModelSpec& spec() const { return spec_; }
  const ModelWeights& weights() const { return weights_; }

  /// `out` is [logit_rows.size(), n_vocab or hidden_dim], as input.output says. Fails when keys or
  /// values are not finite in the type of the cache; the pages of the input tokens then hold
  /// nothing of use.
  Status forward(const ModelInput& input, ThreadPool& pool, float* out);

 private:
  Model(ModelSpec spec, ModelWeights weights, KvLayout layout_types);

  /// Keeps what is resident of the embedding small; n_rows were read of it.
  void drop_embedding(std::size_t n_rows);

  ModelSpec spec_;
  ModelWeights weights_;
  KvLayout layout_types_;  // KV types and page size; head counts come from the layer
  std::vector<RopeTable> ropes_;
  const Kernels* kernels_;
  Workspace workspace_;
  std::size_t embedded_rows_ = 0;  // since the embedding was last dropped from memory
};

}  // namespace quire
