#pragma once

#include <string_view>

#include "base/result.h"

namespace quire {

/// How a byte-level BPE model cuts text into pieces before merging, as the JSON that Hugging
/// Face's tokenizer.json has for it.
struct PreTokenizer {
  std::string_view name;  // tokenizer.ggml.pre
  std::string_view normalizer;
  std::string_view pre_tokenizer;
  bool ignore_merges;  // a piece that is a token as it stands needs no merges
};

/// The one of that name, or a refusal that lists what is known: a wrong guess would give wrong ids
/// without any other sign.
Result<const PreTokenizer*> find_pre_tokenizer(std::string_view name);

}  // namespace quire
