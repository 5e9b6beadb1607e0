#pragma once
// A cache of which only sizes matter, for tests.

#include <cstddef>

#include "kv/kv_arithmetic.h"

namespace quire::testing {

/// Equal layers with pages of 16 tokens.
inline KvConfig planner_config(std::size_t n_layers, std::size_t window = 0) {
  KvConfig config;
  config.layers.assign(n_layers, {{.n_kv_heads = 1, .head_dim = 2, .page_size = 16}, window});
  return config;
}

}  // namespace quire::testing
