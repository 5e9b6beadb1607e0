#include "model/hparams.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/gguf_text.h"

namespace quire {
namespace {

// Upper bounds keep products of hyper-parameters far from overflow; no published model is near.
constexpr std::size_t kMaxLayers = 4096;
constexpr std::size_t kMaxDim = std::size_t{1} << 24;
constexpr std::size_t kMaxHeads = 65536;
constexpr std::size_t kMaxHeadDim = 4096;
// Known models have 1 to a few hundred; far beyond, an angle is no longer a number.
constexpr float kMinFreqFactor = 1e-6f;
constexpr float kMaxFreqFactor = 1e6f;
constexpr std::size_t kMaxVocab = (std::size_t{1} << 31) - 1;
constexpr std::size_t kMaxContext = std::size_t{1} << 31;

/// One number for all layers or an array with one per layer.
Result<std::vector<std::size_t>> per_layer(const HparamReader& reader, std::string_view suffix,
                                           std::size_t n_layers, std::size_t max) {
  const std::string key = reader.key(suffix);
  QUIRE_ASSIGN_OR_RETURN(const auto values, reader.file().optional_uints(key));
  if (!values) return reader.file().refuse(key, "");  // says that it is missing
  std::vector<std::size_t> out(values->begin(), values->end());
  if (out.size() == 1) out.assign(n_layers, out.front());
  if (out.size() != n_layers)
    return reader.file().refuse(
        key, fmt::format("{} values, but the model has {} layers", out.size(), n_layers));
  for (const std::size_t value : out)
    if (value < 1 || value > max)
      return reader.file().refuse(key, fmt::format("{} is not between 1 and {}", value, max));
  return out;
}

Status read_heads(const HparamReader& reader, ModelSpec& spec) {
  const std::size_t n_layers = spec.layers.size();
  QUIRE_ASSIGN_OR_RETURN(const auto heads,
                         per_layer(reader, "attention.head_count", n_layers, kMaxHeads));
  const std::string kv_key = reader.key("attention.head_count_kv");
  auto kv_heads = heads;
  if (reader.file().find(kv_key) != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(kv_heads,
                           per_layer(reader, "attention.head_count_kv", n_layers, kMaxHeads));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto ffn,
                         per_layer(reader, "feed_forward_length", n_layers, kMaxDim));
  for (std::size_t i = 0; i < n_layers; ++i) {
    if (heads[i] % kv_heads[i] != 0)
      return reader.file().refuse(
          kv_key,
          fmt::format("{} heads cannot share {} KV heads (layer {})", heads[i], kv_heads[i], i));
    spec.layers[i] = LayerSpec{
        .n_heads = heads[i], .n_kv_heads = kv_heads[i], .ffn_dim = ffn[i], .window = 0, .rope = 0};
  }

  const std::string key_length = reader.key("attention.key_length");
  const std::string embedding_length = reader.key("embedding_length");
  const bool implied = reader.file().find(key_length) == nullptr;
  if (implied && spec.hidden_dim % heads.front() != 0)
    return reader.file().refuse(
        embedding_length,
        fmt::format("{} elements do not divide into {} heads", spec.hidden_dim, heads.front()));
  QUIRE_ASSIGN_OR_RETURN(spec.head_dim, reader.optional("attention.key_length", 1, kMaxHeadDim,
                                                        spec.hidden_dim / heads.front()));
  QUIRE_ASSIGN_OR_RETURN(const std::size_t value_dim,
                         reader.optional("attention.value_length", 1, kMaxHeadDim, spec.head_dim));
  if (value_dim != spec.head_dim)
    return reader.file().refuse(
        reader.key("attention.value_length"),
        fmt::format("values of {} elements beside keys of {} are not supported", value_dim,
                    spec.head_dim));
  if (spec.head_dim % 2 != 0 || spec.head_dim > kMaxHeadDim)
    return reader.file().refuse(
        implied ? embedding_length : key_length,
        fmt::format("heads of {} elements; an even number up to {} is supported", spec.head_dim,
                    kMaxHeadDim));
  return {};
}

}  // namespace

Result<std::size_t> HparamReader::require(std::string_view suffix, std::size_t min,
                                          std::size_t max) const {
  return file_.require_uint(key(suffix), min, max);
}

Result<std::size_t> HparamReader::optional(std::string_view suffix, std::size_t min,
                                           std::size_t max, std::size_t fallback) const {
  QUIRE_ASSIGN_OR_RETURN(const auto value, file_.optional_uint(key(suffix), min, max));
  return value.value_or(fallback);
}

Result<double> HparamReader::optional_real(std::string_view suffix, double min, double max,
                                           double fallback) const {
  QUIRE_ASSIGN_OR_RETURN(const auto value, file_.optional_float(key(suffix)));
  if (!value) return fallback;
  if (!(*value >= min && *value <= max))
    return file_.refuse(key(suffix), fmt::format("{} is not between {} and {}", *value, min, max));
  return *value;
}

Result<double> HparamReader::require_real(std::string_view suffix, double min, double max) const {
  const std::string name = key(suffix);
  if (file_.find(name) == nullptr) return file_.refuse(name, "");  // says that it is missing
  return optional_real(suffix, min, max, min);
}

Status read_common(const HparamReader& reader, ModelSpec& spec) {
  QUIRE_ASSIGN_OR_RETURN(const std::size_t n_layers, reader.require("block_count", 1, kMaxLayers));
  QUIRE_ASSIGN_OR_RETURN(spec.hidden_dim, reader.require("embedding_length", 1, kMaxDim));
  QUIRE_ASSIGN_OR_RETURN(spec.context_length, reader.require("context_length", 1, kMaxContext));
  QUIRE_ASSIGN_OR_RETURN(const double eps,
                         reader.require_real("attention.layer_norm_rms_epsilon", 0, 1));
  spec.norm_eps = static_cast<float>(eps);
  spec.layers.resize(n_layers);
  QUIRE_RETURN_IF_ERROR(read_heads(reader, spec));
  spec.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.head_dim)));
  return {};
}

Status check_vocab_size(const HparamReader& reader, std::size_t n_rows) {
  QUIRE_ASSIGN_OR_RETURN(const std::size_t stated,
                         reader.optional("vocab_size", 1, kMaxVocab, n_rows));
  if (stated == n_rows) return {};
  return reader.file().refuse(
      reader.key("vocab_size"),
      fmt::format("{} tokens, but 'token_embd.weight' has {} rows", stated, n_rows));
}

Result<std::size_t> read_window(const HparamReader& reader) {
  return reader.optional("attention.sliding_window", 0, kMaxContext, 0);
}

Result<RopeSpec> read_rope(const HparamReader& reader, const ModelSpec& spec, RopeStyle style) {
  RopeSpec rope;
  rope.style = style;
  QUIRE_ASSIGN_OR_RETURN(rope.rope_dim,
                         reader.optional("rope.dimension_count", 2, spec.head_dim, spec.head_dim));
  if (rope.rope_dim % 2 != 0)
    return reader.file().refuse(reader.key("rope.dimension_count"),
                                fmt::format("{} is odd", rope.rope_dim));
  QUIRE_ASSIGN_OR_RETURN(rope.base, reader.optional_real("rope.freq_base", 1, 1e12, 10000));

  QUIRE_ASSIGN_OR_RETURN(const auto type,
                         reader.file().optional_string(reader.key("rope.scaling.type")));
  QUIRE_ASSIGN_OR_RETURN(const double legacy_factor,
                         reader.optional_real("rope.scale_linear", 1e-3, 1e6, 1));
  QUIRE_ASSIGN_OR_RETURN(rope.factor,
                         reader.optional_real("rope.scaling.factor", 1e-3, 1e6, legacy_factor));
  if (!type || *type == "none") {
    // Files older than rope.scaling.type state a linear factor alone.
    rope.scaling = rope.factor != 1 && !type ? RopeScaling::kLinear : RopeScaling::kNone;
  } else if (*type == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (*type == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    QUIRE_ASSIGN_OR_RETURN(rope.original_context,
                           reader.optional("rope.scaling.original_context_length", 1, kMaxContext,
                                           spec.context_length));
    QUIRE_ASSIGN_OR_RETURN(rope.attn_factor,
                           reader.optional_real("rope.scaling.attn_factor", 1e-6, 1e6, 1));
    QUIRE_ASSIGN_OR_RETURN(rope.ext_factor,
                           reader.optional_real("rope.scaling.yarn_ext_factor", 0, 1, 1));
    QUIRE_ASSIGN_OR_RETURN(rope.beta_fast,
                           reader.optional_real("rope.scaling.yarn_beta_fast", 1e-6, 1e6, 32));
    QUIRE_ASSIGN_OR_RETURN(rope.beta_slow,
                           reader.optional_real("rope.scaling.yarn_beta_slow", 1e-6, 1e6, 1));
  } else {
    return reader.file().refuse(
        reader.key("rope.scaling.type"),
        fmt::format("'{}'; none, linear and yarn are supported (llama3 scaling comes as the tensor "
                    "rope_freqs.weight)",
                    printable(*type)));
  }

  if (reader.file().find_tensor("rope_freqs.weight") != nullptr) {
    const std::uint64_t ne = rope.rope_dim / 2;
    QUIRE_ASSIGN_OR_RETURN(const GgufTensor* factors,
                           reader.file().require_tensor("rope_freqs.weight", std::span(&ne, 1)));
    rope.freq_factors.resize(ne);
    dequantize(factors->type, factors->data.data(), ne, rope.freq_factors.data());
    for (const float f : rope.freq_factors)
      if (!(f >= kMinFreqFactor && f <= kMaxFreqFactor))
        return fail(ErrorCode::kInvalidData,
                    "{}: tensor 'rope_freqs.weight' at byte {} holds {}, which is not a divisor of "
                    "frequencies from {} to {}",
                    reader.file().name(), factors->offset, f, kMinFreqFactor, kMaxFreqFactor);
  }
  return rope;
}

}  // namespace quire
