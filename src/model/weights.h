#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "kernels/packed_matrix.h"
#include "model/gguf.h"
#include "model/model_spec.h"

namespace quire {

/// A linear layer: y = W x + b. The bias [n_rows] is empty if the model has none.
struct Linear {
  PackedMatrix weight;
  std::vector<float> bias;
};

struct LayerWeights {
  std::vector<float> attn_norm;       // [hidden]
  Linear q, k, v;                     // [n_heads * head_dim, hidden], KV heads for k and v
  std::vector<float> q_norm, k_norm;  // [head_dim], if ModelSpec::has_qk_norm
  Linear o;                           // [hidden, n_heads * head_dim]
  std::vector<float> post_attn_norm;  // [hidden], if ModelSpec::has_post_norms
  std::vector<float> ffn_norm;        // [hidden]
  Linear gate, up;                    // [ffn, hidden]
  Linear down;                        // [hidden, ffn]
  std::vector<float> post_ffn_norm;   // [hidden], if ModelSpec::has_post_norms
};

struct ModelWeights {
  const GgufTensor* embedding = nullptr;  // [n_vocab, hidden], read row by row from the file
  std::vector<LayerWeights> layers;
  std::vector<float> output_norm;  // [hidden]
  PackedMatrix output;             // [n_vocab, hidden]; the embedding again if tied
};

/// That every tensor of the model is there and has its shape. A tensor of a layer that nothing here
/// would use is an error too: it would mean that the file describes another computation. Reads no
/// tensor, so that a file that cannot work is refused before anything large is done.
Status check_tensors(const GgufFile& file, const ModelSpec& spec);

/// check_tensors, and packs every tensor, whose numbers must be finite. `file` must outlive the
/// result.
Result<ModelWeights> load_weights(const GgufFile& file, const ModelSpec& spec, Precision precision,
                                  ThreadPool& pool, const std::function<void(double)>& progress);

}  // namespace quire
