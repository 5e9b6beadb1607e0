#pragma once
// One entry per architecture: what turns metadata into a ModelSpec. A new architecture is one
// arch_NAME.cc and one line in model_spec.cc.

#include "model/hparams.h"
#include "model/model_spec.h"

namespace quire {

using ReadSpecFn = Status (*)(const HparamReader&, ModelSpec&);

Status read_llama(const HparamReader& reader, ModelSpec& spec);
Status read_qwen2(const HparamReader& reader, ModelSpec& spec);
Status read_qwen3(const HparamReader& reader, ModelSpec& spec);
Status read_gemma3(const HparamReader& reader, ModelSpec& spec);

}  // namespace quire
