// Llama 2 and 3, SmolLM2, Mistral: pre-norm, SwiGLU, GQA, RoPE on adjacent pairs (GGUF permutes q
// and k for that). Mistral's window is the same for every layer.

#include "model/arch.h"

namespace quire {

Status read_llama(const HparamReader& reader, ModelSpec& spec) {
  QUIRE_RETURN_IF_ERROR(read_common(reader, spec));
  QUIRE_ASSIGN_OR_RETURN(RopeSpec rope, read_rope(reader, spec, RopeStyle::kAdjacent));
  spec.ropes.push_back(std::move(rope));
  QUIRE_ASSIGN_OR_RETURN(const std::size_t window, read_window(reader));
  for (LayerSpec& layer : spec.layers) layer.window = window;
  return {};
}

}  // namespace quire
