// Qwen 3: as Qwen 2 without biases, with an RMSNorm per head on q and k before RoPE.

#include "model/arch.h"

namespace quire {

Status read_qwen3(const HparamReader& reader, ModelSpec& spec) {
  QUIRE_RETURN_IF_ERROR(read_qwen2(reader, spec));
  spec.has_qk_norm = true;
  return {};
}

}  // namespace quire
