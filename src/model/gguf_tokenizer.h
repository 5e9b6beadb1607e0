#pragma once

#include "base/result.h"
#include "model/gguf.h"
#include "text/tokenizer.h"

namespace quire {

/// The tokenizer.ggml.* keys of a model, checked: arrays are as long as the vocabulary, special ids
/// are inside it, scores are finite. Flags that are absent get llama.cpp's defaults for the kind of
/// tokenizer, since files leave out what the writer took for granted.
Result<TokenizerData> tokenizer_data_from_gguf(const GgufFile& file);

}  // namespace quire
