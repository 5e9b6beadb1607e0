#pragma once

#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "model/attention_plan.h"
#include "model/workspace.h"

namespace quire {

/// Plans the attention of this layer and takes the scratch it needs, before the workers start.
void reserve_attention(const ModelInput& input, const AttentionLayer& layer, std::size_t n_workers,
                       Workspace& ws);

/// softmax(scale * Q K^T) V over the page tables: q [n_rows, n_heads * head_dim] to
/// ws.attention [n_rows, n_heads * head_dim]. Called by all workers; contains a barrier if the work
/// had to be split along the sequence.
void paged_attention(ThreadPool::Worker& worker, const Kernels& kernels, const ModelInput& input,
                     const AttentionLayer& layer, Workspace& ws);

}  // namespace quire
