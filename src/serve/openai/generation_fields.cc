#include "serve/openai/generation_fields.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <utility>

namespace quire::openai {
namespace {

namespace json = boost::json;

constexpr auto kInt32Max = std::numeric_limits<std::int32_t>::max();
constexpr auto kInt64Min = std::numeric_limits<std::int64_t>::min();
constexpr auto kInt64Max = std::numeric_limits<std::int64_t>::max();

// Both names of the penalty are in use elsewhere; saying two different things is an error.
void read_repetition_penalty(FieldReader& fields, SamplerParams& sampling) {
  const auto long_name = fields.number("repetition_penalty", 0.01, 100);
  const auto short_name = fields.number("repeat_penalty", 0.01, 100);
  if (long_name && short_name && *long_name != *short_name)
    fields.unsupported("repeat_penalty", "'repetition_penalty' says something else");
  if (const auto penalty = long_name ? long_name : short_name)
    sampling.repeat_penalty = static_cast<float>(*penalty);
}

std::optional<TokenId> parse_token(std::string_view text) {
  TokenId id = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), id);
  // One way to write a number, or one token could have two biases.
  if (ec != std::errc() || std::to_string(id) != text || id < 0) return std::nullopt;
  return id;
}

void read_logit_bias(FieldReader& fields, const RequestLimits& limits, SamplerParams& sampling) {
  const json::object* biases = fields.object("logit_bias");
  if (biases == nullptr) return;
  const std::string path = fields.path("logit_bias");
  if (biases->size() > limits.max_logit_bias) {
    fields.error().set(invalid_field(path, "object_above_max_length",
                                     "'{}' names {} tokens, but at most {} are taken.", path,
                                     biases->size(), limits.max_logit_bias));
    return;
  }
  for (const auto& [key, value] : *biases) {
    const std::string_view name(key.data(), key.size());
    const auto token = parse_token(name);
    if (!token) {
      fields.error().set(invalid_field(path, "invalid_value",
                                       "Invalid key in '{}': '{}' is not a token id.", path,
                                       shown(name)));
      return;
    }
    const auto bias = to_number(value, field_path(path, name), -100, 100, fields.error());
    if (bias) sampling.logit_bias.emplace_back(*token, static_cast<float>(*bias));
  }
}

void read_stop(FieldReader& fields, const RequestLimits& limits, GenerationFields& out) {
  const json::value* value = fields.any("stop");
  if (value == nullptr) return;
  const std::string path = fields.path("stop");
  const auto add = [&](const json::value& item, const std::string& where) {
    auto text = to_text(item, where, fields.error());
    if (!text) return;
    if (text->empty() || text->size() > limits.max_stop_bytes) {
      fields.error().set(invalid_field(where, "invalid_value",
                                       "Invalid '{}': a stop string has 1 to {} bytes, not {}.",
                                       where, limits.max_stop_bytes, text->size()));
      return;
    }
    out.stop.push_back(std::move(*text));
  };
  if (value->is_string()) return add(*value, path);
  if (!value->is_array()) return wrong_type(*value, path, "a string or an array", fields.error());
  const json::array& items = value->get_array();
  if (items.size() > limits.max_stops) {
    fields.error().set(invalid_field(path, "array_above_max_length",
                                     "'{}' has {} strings, but at most {} are taken.", path,
                                     items.size(), limits.max_stops));
    return;
  }
  for (std::size_t i = 0; i < items.size(); ++i) add(items[i], item_path(path, i));
}

}  // namespace

void read_sampling(FieldReader& fields, const RequestLimits& limits, GenerationFields& out) {
  SamplerParams& sampling = out.sampling;
  if (const auto x = fields.number("temperature", 0, 2))
    sampling.temperature = static_cast<float>(*x);
  // OpenAI takes 0, which leaves the likeliest token; here any positive number that small does.
  if (const auto x = fields.number("top_p", 0, 1))
    sampling.top_p = std::max(static_cast<float>(*x), std::numeric_limits<float>::min());
  if (const auto k = fields.integer("top_k", -1, kInt32Max))
    sampling.top_k = static_cast<std::uint32_t>(std::max<std::int64_t>(*k, 0));
  if (const auto x = fields.number("min_p", 0, 1)) sampling.min_p = static_cast<float>(*x);
  if (const auto x = fields.number("presence_penalty", -2, 2))
    sampling.presence_penalty = static_cast<float>(*x);
  if (const auto x = fields.number("frequency_penalty", -2, 2))
    sampling.frequency_penalty = static_cast<float>(*x);
  read_repetition_penalty(fields, sampling);
  read_logit_bias(fields, limits, sampling);
  if (const auto seed = fields.integer("seed", kInt64Min, kInt64Max))
    out.seed = static_cast<std::uint64_t>(*seed);
  out.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  if (const auto priority = fields.integer("priority", -kInt32Max - 1, kInt32Max))
    out.priority = static_cast<std::int32_t>(*priority);
  if (auto salt = fields.text("cache_salt")) {
    if (salt->empty() || salt->size() > 256)
      fields.unsupported("cache_salt", "it must have 1 to 256 bytes");
    out.cache_salt = std::move(*salt);
  }
  if (fields.boolean("use_beam_search").value_or(false))
    fields.unsupported("use_beam_search", "this server does no beam search");
}

void read_choices(FieldReader& fields, const RequestLimits& limits, GenerationFields& out) {
  const auto most = static_cast<std::int64_t>(limits.max_choices);
  out.n = static_cast<std::size_t>(fields.integer("n", 1, most).value_or(1));
  out.best_of = out.n;
  if (const auto best_of = fields.integer("best_of", 1, most)) {
    out.best_of = static_cast<std::size_t>(*best_of);
    if (out.best_of < out.n)
      fields.error().set(invalid_field(fields.path("best_of"), "invalid_value",
                                       "'best_of' ({}) must not be less than 'n' ({}).",
                                       out.best_of, out.n));
  }
  read_stop(fields, limits, out);
  out.stream = fields.boolean("stream").value_or(false);
  if (out.stream && out.best_of > out.n)
    fields.unsupported("best_of", "which choices are best is known only at the end of a stream");
  if (const json::object* options = fields.object("stream_options")) {
    if (!out.stream)
      fields.unsupported("stream_options", "it is only allowed when 'stream' is true");
    FieldReader reader(*options, fields.path("stream_options"), fields.error());
    out.include_usage = reader.boolean("include_usage").value_or(false);
    reader.ignore("include_obfuscation", JsonKind::kBoolean);
    reader.done();
  }
}

void ignore_account_fields(FieldReader& fields) {
  fields.ignore("user", JsonKind::kText);
  fields.ignore("safety_identifier", JsonKind::kText);
  fields.ignore("metadata", JsonKind::kObject);
  fields.ignore("store", JsonKind::kBoolean);
  fields.word("service_tier", {"auto", "default", "flex", "scale", "priority", "fast"});
  fields.ignore("prompt_cache_key", JsonKind::kText);
  fields.ignore("prompt_cache_options", JsonKind::kObject);
  fields.word("prompt_cache_retention", {"in_memory", "in-memory", "24h"});
}

}  // namespace quire::openai
