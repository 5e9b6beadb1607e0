#pragma once
// Gathers the functions of one tier into its table. The scalar, AVX2 and AVX-512 sources include a
// simd_*.h and then this.

#include "kernels/attention_inl.h"
#include "kernels/dot_peak_inl.h"
#include "kernels/elementwise_inl.h"
#include "kernels/kv_write_inl.h"
#include "kernels/linear_inl.h"
#include "kernels/quantize_inl.h"

namespace quire {
namespace {

constexpr Kernels make_table(std::string_view name) {
  return {
      .name = name,
      .quantize_row = quantize_row,
      .linear = linear,
      .rms_norm = rms_norm,
      .rope = rope,
      .add = add,
      .scale = scale,
      .silu_mul = silu_mul,
      .gelu_tanh_mul = gelu_tanh_mul,
      .softcap = softcap,
      .kv_write = kv_write,
      .attend = attend,
      .merge_splits = merge_splits,
      .dot_peak = dot_peak,
      .pair_peak = kPairPeak,
  };
}

}  // namespace
}  // namespace quire
