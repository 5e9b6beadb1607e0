// Gemma 3 (Gemma Team 2025): five local layers to one global one, each kind with its own RoPE base;
// query/key norms, norms after attention and FFN, embeddings scaled by sqrt(hidden), GeGLU.

#include <cmath>

#include "model/arch.h"

namespace quire {
namespace {

constexpr std::size_t kDefaultPattern = 6;    // every sixth layer is global
constexpr std::size_t kDefaultWindow = 1024;  // as in the 4B to 27B models
// The one released size whose queries are scaled by hidden / heads instead of head_dim; GGUF files
// carry no key for it.
constexpr std::size_t kLayersOf27B = 62;

}  // namespace

Status read_gemma3(const HparamReader& reader, ModelSpec& spec) {
  QUIRE_RETURN_IF_ERROR(read_common(reader, spec));
  spec.has_qk_norm = true;
  spec.has_post_norms = true;
  spec.activation = Activation::kGeluTanh;
  spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden_dim));

  const double per_head = static_cast<double>(spec.layers.size() == kLayersOf27B
                                                  ? spec.hidden_dim / spec.layers[0].n_heads
                                                  : spec.head_dim);
  QUIRE_ASSIGN_OR_RETURN(const double scale, reader.optional_real("attention.scale", 1e-6, 1e6,
                                                                  1.0 / std::sqrt(per_head)));
  spec.attention_scale = static_cast<float>(scale);
  QUIRE_ASSIGN_OR_RETURN(const double final_cap,
                         reader.optional_real("final_logit_softcapping", 0, 1e6, 0));
  QUIRE_ASSIGN_OR_RETURN(const double attention_cap,
                         reader.optional_real("attn_logit_softcapping", 0, 1e6, 0));
  spec.final_softcap = static_cast<float>(final_cap);
  spec.attention_softcap = static_cast<float>(attention_cap);

  QUIRE_ASSIGN_OR_RETURN(RopeSpec global, read_rope(reader, spec, RopeStyle::kHalves));
  RopeSpec local;
  local.style = RopeStyle::kHalves;
  local.rope_dim = global.rope_dim;
  QUIRE_ASSIGN_OR_RETURN(local.base, reader.optional_real("rope.freq_base_swa", 1, 1e12, 10000));
  spec.ropes = {std::move(global), std::move(local)};

  QUIRE_ASSIGN_OR_RETURN(
      const std::size_t window,
      reader.optional("attention.sliding_window", 1, std::size_t{1} << 31, kDefaultWindow));
  QUIRE_ASSIGN_OR_RETURN(
      const std::size_t pattern,
      reader.optional("attention.sliding_window_pattern", 1, 4096, kDefaultPattern));
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const bool is_local = i % pattern != pattern - 1;
    spec.layers[i].window = is_local ? window : 0;
    spec.layers[i].rope = is_local ? 1 : 0;
  }
  return {};
}

}  // namespace quire
