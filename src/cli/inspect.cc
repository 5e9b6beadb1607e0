#include "cli/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/gguf_tokenizer.h"

namespace quire {
namespace {

// Bounds that no model comes near and whose products fit into 64 bits.
constexpr std::uint64_t kMaxLayers = 65536;
constexpr std::uint64_t kMaxHeads = 65536;
constexpr std::uint64_t kMaxWidth = std::uint64_t{1} << 24;

/// Per-layer head counts: one number for all layers, or an array where 0 marks a layer without
/// attention. nullopt if the key is missing.
Result<std::optional<std::vector<std::uint64_t>>> head_counts(const GgufFile& file,
                                                              const std::string& key,
                                                              std::uint64_t n_layers) {
  QUIRE_ASSIGN_OR_RETURN(auto counts, file.optional_uints(key));
  if (!counts) return std::nullopt;
  const bool is_array = std::holds_alternative<GgufArray>(*file.find(key));
  for (const std::uint64_t count : *counts)
    if (count > kMaxHeads || (count == 0 && !is_array))
      return file.refuse(
          key, fmt::format("a head count of {}, not {} to {}", count, is_array ? 0 : 1, kMaxHeads));
  if (!is_array) return std::vector<std::uint64_t>(n_layers, counts->front());
  if (counts->size() < n_layers)
    return file.refuse(key, fmt::format("{} values for {} layers", counts->size(), n_layers));
  counts->resize(n_layers);
  return counts;
}

/// Elements per head where the file does not say: the embedding split evenly.
Result<std::uint64_t> even_head_length(const GgufFile& file, const std::string& arch,
                                       const std::vector<std::uint64_t>& heads) {
  const std::string key = arch + ".embedding_length";
  QUIRE_ASSIGN_OR_RETURN(const auto embedding, file.require_uint(key, 1, kMaxWidth));
  const std::uint64_t n_heads = *std::max_element(heads.begin(), heads.end());
  if (n_heads == 0) return 0;
  if (embedding % n_heads != 0)
    return file.refuse(key,
                       fmt::format("{} elements do not divide into {} heads", embedding, n_heads));
  return embedding / n_heads;
}

Result<std::optional<KvSummary>> kv_summary(const GgufFile& file, const std::string& arch) {
  KvSummary kv;
  QUIRE_ASSIGN_OR_RETURN(const auto n_layers,
                         file.optional_uint(arch + ".block_count", 1, kMaxLayers));
  if (!n_layers) return std::nullopt;
  kv.n_layers = *n_layers;
  const std::string kv_key = arch + ".attention.head_count_kv";
  QUIRE_ASSIGN_OR_RETURN(const auto heads,
                         head_counts(file, arch + ".attention.head_count", kv.n_layers));
  QUIRE_ASSIGN_OR_RETURN(const auto kv_heads, head_counts(file, kv_key, kv.n_layers));
  // Latent attention keeps one compressed row per token instead of heads.
  if (!heads || file.find(arch + ".attention.kv_lora_rank") != nullptr) return std::nullopt;
  kv.n_kv_heads = kv_heads ? *kv_heads : *heads;
  for (std::size_t layer = 0; layer < kv.n_layers; ++layer)
    if (kv.n_kv_heads[layer] != 0 && (*heads)[layer] % kv.n_kv_heads[layer] != 0)
      return file.refuse(kv_key, fmt::format("{} heads cannot share {} KV heads (layer {})",
                                             (*heads)[layer], kv.n_kv_heads[layer], layer));

  QUIRE_ASSIGN_OR_RETURN(const auto key_length,
                         file.optional_uint(arch + ".attention.key_length", 1, kMaxWidth));
  QUIRE_ASSIGN_OR_RETURN(const auto value_length,
                         file.optional_uint(arch + ".attention.value_length", 1, kMaxWidth));
  std::uint64_t even = 0;
  if (!key_length || !value_length) {
    if (file.find(arch + ".embedding_length") == nullptr) return std::nullopt;
    QUIRE_ASSIGN_OR_RETURN(even, even_head_length(file, arch, *heads));
  }
  kv.key_length = key_length.value_or(even);
  kv.value_length = value_length.value_or(even);
  QUIRE_ASSIGN_OR_RETURN(const auto window, file.optional_uint(arch + ".attention.sliding_window",
                                                               0, std::uint64_t{1} << 40));
  kv.window = window.value_or(0);
  return kv;
}

Result<std::optional<TokenizerSummary>> tokenizer_summary(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(auto model, file.optional_string("tokenizer.ggml.model"));
  if (!model) return std::nullopt;
  TokenizerSummary summary;
  summary.model = std::move(*model);
  QUIRE_ASSIGN_OR_RETURN(const auto* tokens, file.optional_strings("tokenizer.ggml.tokens"));
  if (tokens != nullptr) summary.vocab_size = tokens->size();
  QUIRE_ASSIGN_OR_RETURN(const auto* merges, file.optional_strings("tokenizer.ggml.merges"));
  if (merges != nullptr) summary.n_merges = merges->size();
  QUIRE_ASSIGN_OR_RETURN(const auto chat, file.optional_string("tokenizer.chat_template"));
  if (chat) summary.chat_template_bytes = chat->size();
  auto data = tokenizer_data_from_gguf(file);
  if (data) {
    summary.data = std::move(*data);
  } else if (data.error().code != ErrorCode::kUnsupported) {
    return fail(std::move(data).error());
  }
  return summary;
}

}  // namespace

std::uint64_t KvSummary::bytes_per_token(std::uint64_t element_bytes) const {
  std::uint64_t heads = 0;
  for (const std::uint64_t n : n_kv_heads) heads += n;
  return heads * (key_length + value_length) * element_bytes;
}

Result<ModelSummary> summarize(const GgufFile& file) {
  ModelSummary summary;
  for (const GgufTensor& tensor : file.tensors()) {
    summary.n_parameters += tensor.n_elements();
    summary.tensor_bytes += tensor.data.size();
    ++summary.tensors_by_type[tensor_type_info(tensor.type).name];
  }
  QUIRE_ASSIGN_OR_RETURN(auto architecture, file.optional_string("general.architecture"));
  if (architecture) {
    summary.architecture = std::move(*architecture);
    QUIRE_ASSIGN_OR_RETURN(summary.kv, kv_summary(file, summary.architecture));
  }
  QUIRE_ASSIGN_OR_RETURN(summary.tokenizer, tokenizer_summary(file));
  return summary;
}

}  // namespace quire
