#pragma once
// What a model file says of itself. Works for every architecture, also those the engine cannot run.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"
#include "text/tokenizer.h"

namespace quire {

/// The KV cache's row layout as the hyper-parameters imply it.
struct KvSummary {
  std::uint64_t n_layers = 0;
  std::vector<std::uint64_t> n_kv_heads;  // per layer
  std::uint64_t key_length = 0;           // elements per head
  std::uint64_t value_length = 0;
  std::uint64_t window = 0;  // tokens that windowed layers keep; 0 if none
  /// Of one token in all layers, for elements of this many bytes.
  std::uint64_t bytes_per_token(std::uint64_t element_bytes) const;
};

struct TokenizerSummary {
  std::string model;
  std::size_t vocab_size = 0;
  std::size_t n_merges = 0;
  std::size_t chat_template_bytes = 0;
  std::optional<TokenizerData> data;  // nullopt for a kind of tokenizer that is not known
};

struct ModelSummary {
  std::string architecture;  // empty if the file does not say
  std::uint64_t n_parameters = 0;
  std::uint64_t tensor_bytes = 0;
  std::map<std::string_view, std::uint64_t> tensors_by_type;
  std::optional<KvSummary> kv;  // nullopt for what keeps no keys and values per head
  std::optional<TokenizerSummary> tokenizer;
};

/// Everything that is wrong with the values is an error; what is merely absent is left out.
Result<ModelSummary> summarize(const GgufFile& file);

/// For people, or as one JSON object. Text from the file is escaped.
std::string inspect_text(const GgufFile& file, const ModelSummary& summary);
std::string inspect_json(const GgufFile& file, const ModelSummary& summary);

}  // namespace quire
