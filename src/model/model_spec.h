#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/kernels.h"
#include "kv/kv_manager.h"
#include "model/gguf.h"

namespace quire {

enum class RopeScaling : std::uint8_t { kNone, kLinear, kYarn };

/// Rotary position embedding of one layer (Su et al. 2021) and its extensions to longer contexts.
struct RopeSpec {
  RopeStyle style = RopeStyle::kHalves;
  std::size_t rope_dim = 0;  // leading dimensions that rotate
  double base = 10000;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;  // linear and YaRN: position interpolation
  // YaRN (Peng et al. 2023)
  std::size_t original_context = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  double ext_factor = 1;
  double attn_factor = 1;  // of cos and sin
  /// Divisors of the inverse frequencies, [rope_dim / 2], or empty (llama3 scaling: rope_freqs).
  std::vector<float> freq_factors;

  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

enum class Activation : std::uint8_t { kSilu, kGeluTanh };

struct LayerSpec {
  std::size_t n_heads = 0;
  std::size_t n_kv_heads = 0;
  std::size_t ffn_dim = 0;
  std::size_t window = 0;  // 0: full attention; else the token at p sees (p - window, p]
  std::size_t rope = 0;    // index into ModelSpec::ropes
};

/// Everything about a model but its weights: what an architecture file makes of GGUF metadata.
struct ModelSpec {
  std::string architecture;  // "llama"
  std::string name;
  std::size_t n_vocab = 0;
  std::size_t hidden_dim = 0;
  std::size_t head_dim = 0;
  std::size_t context_length = 0;  // trained
  float norm_eps = 1e-5f;
  float embedding_scale = 1;
  float attention_scale = 0;  // of q.k
  float attention_softcap = 0;
  float final_softcap = 0;
  Activation activation = Activation::kSilu;
  bool has_qk_norm = false;     // RMSNorm per head on q and k before RoPE
  bool has_post_norms = false;  // RMSNorm on the outputs of attention and FFN
  std::vector<LayerSpec> layers;
  std::vector<RopeSpec> ropes;

  /// The cache this model needs.
  KvConfig kv_config(KvType type, std::size_t page_size, std::uint64_t budget_bytes) const;
  std::uint64_t kv_bytes_per_token(KvType type) const;
};

/// Reads and checks the hyper-parameters; an unknown architecture is refused with the known ones.
Result<ModelSpec> read_model_spec(const GgufFile& file);

}  // namespace quire
