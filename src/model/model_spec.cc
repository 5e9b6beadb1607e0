#include "model/model_spec.h"

#include <array>
#include <utility>

#include "model/arch.h"
#include "model/gguf_text.h"

namespace quire {
namespace {

constexpr std::array<std::pair<std::string_view, ReadSpecFn>, 4> kArchitectures = {{
    {"llama", read_llama},
    {"qwen2", read_qwen2},
    {"qwen3", read_qwen3},
    {"gemma3", read_gemma3},
}};

}  // namespace

Result<ModelSpec> read_model_spec(const GgufFile& file) {
  ModelSpec spec;
  QUIRE_ASSIGN_OR_RETURN(spec.architecture, file.require_string("general.architecture"));
  QUIRE_ASSIGN_OR_RETURN(const auto name, file.optional_string("general.name"));
  spec.name = name.value_or(spec.architecture);
  for (const auto& [known, read] : kArchitectures) {
    if (known != spec.architecture) continue;
    QUIRE_RETURN_IF_ERROR(read(HparamReader(file, spec.architecture), spec));
    const GgufTensor* embedding = file.find_tensor("token_embd.weight");
    if (embedding == nullptr)
      return fail(ErrorCode::kNotFound, "{}: tensor 'token_embd.weight' is missing", file.name());
    if (embedding->ne.size() != 2)
      return fail(ErrorCode::kInvalidData,
                  "{}: tensor 'token_embd.weight' at byte {} has {} dimensions, not 2", file.name(),
                  embedding->offset, embedding->ne.size());
    spec.n_vocab = embedding->ne[1];
    QUIRE_RETURN_IF_ERROR(check_vocab_size(HparamReader(file, spec.architecture), spec.n_vocab));
    return spec;
  }
  std::string known;
  for (const auto& [candidate, read] : kArchitectures) {
    if (!known.empty()) known += ", ";
    known += candidate;
  }
  return fail(ErrorCode::kUnsupported,
              "{}: key 'general.architecture' at byte {}: '{}' is not supported; these are: {}",
              file.name(), file.find_key("general.architecture")->offset,
              printable(spec.architecture), known);
}

KvConfig ModelSpec::kv_config(KvType type, std::size_t page_size,
                              std::uint64_t budget_bytes) const {
  KvConfig config;
  config.budget_bytes = budget_bytes;
  for (const LayerSpec& layer : layers)
    config.layers.push_back({.layout = {.k_type = type,
                                        .v_type = type,
                                        .n_kv_heads = static_cast<std::uint32_t>(layer.n_kv_heads),
                                        .head_dim = static_cast<std::uint32_t>(head_dim),
                                        .page_size = static_cast<std::uint32_t>(page_size)},
                             .window = layer.window});
  return config;
}

std::uint64_t ModelSpec::kv_bytes_per_token(KvType type) const {
  std::uint64_t bytes = 0;
  for (const KvLayerSpec& layer : kv_config(type, 16, 0).layers)
    bytes += layer.layout.bytes_per_token();
  return bytes;
}

}  // namespace quire
