#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "model/gguf.h"
#include "text/tokenizer.h"

namespace quire {

/// The tokenizer.ggml.* keys of a model, checked: arrays are as long as the vocabulary, special ids
/// are inside it, scores are finite. Flags that are absent get llama.cpp's defaults for the kind of
/// tokenizer, since files leave out what the writer took for granted.
/// What is refused is refused before the vocabulary is copied.
Result<TokenizerData> tokenizer_data_from_gguf(const GgufFile& file);

/// The same, and refused if no tokenizer can be built of it or the vocabulary is larger than an
/// embedding of `max_tokens` rows.
Result<TokenizerData> usable_tokenizer_data(const GgufFile& file, std::size_t max_tokens);

/// The tokenizer of usable_tokenizer_data(file). Errors name the file and the key.
Result<std::unique_ptr<Tokenizer>> build_tokenizer(const GgufFile& file, TokenizerData data);

}  // namespace quire
