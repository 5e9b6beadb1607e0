// Qwen 2 and 2.5: as Llama with biases on q, k and v and RoPE on halves. The biases are found with
// the weights. Its window is a training option that released models switch off.

#include "model/arch.h"

namespace quire {

Status read_qwen2(const HparamReader& reader, ModelSpec& spec) {
  QUIRE_RETURN_IF_ERROR(read_common(reader, spec));
  QUIRE_ASSIGN_OR_RETURN(RopeSpec rope, read_rope(reader, spec, RopeStyle::kHalves));
  spec.ropes.push_back(std::move(rope));
  return {};
}

}  // namespace quire
