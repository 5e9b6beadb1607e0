#pragma once

#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "model/model_spec.h"
#include "model/workspace.h"

namespace quire {

struct ModelInput;

/// What attention of one layer needs besides the workspace.
struct AttentionLayer {
  KvLayout layout;
  std::size_t n_heads = 0;
  std::size_t window = 0;
  std::size_t index = 0;  // layer, for the page tables
  std::size_t n_layers = 0;
  float scale = 1;
  float softcap = 0;
};

/// Takes the scratch that paged_attention needs for this layer, before the workers start.
void reserve_attention(const ModelInput& input, const AttentionLayer& layer, std::size_t n_workers,
                       Workspace& ws);

/// softmax(scale * Q K^T) V over the page tables: q [n_rows, n_heads * head_dim] to
/// ws.attention [n_rows, n_heads * head_dim]. Called by all workers; contains a barrier if the work
/// had to be split along the sequence.
void paged_attention(ThreadPool::Worker& worker, const Kernels& kernels, const ModelInput& input,
                     const AttentionLayer& layer, Workspace& ws);

}  // namespace quire
