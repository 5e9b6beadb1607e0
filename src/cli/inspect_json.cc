// The form of `quire inspect` that programs read: one JSON object. JSON is UTF-8 and the file's
// bytes need not be: what is not becomes U+FFFD. Control characters are escaped by the serializer.

#include <boost/json.hpp>
#include <cmath>

#include "cli/inspect.h"
#include "text/utf8.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxJsonItems = 1024;  // longer arrays are given by their length

json::value to_json(const GgufValue& value) {
  struct Visitor {
    json::value operator()(std::uint64_t v) const { return v; }
    json::value operator()(std::int64_t v) const { return v; }
    json::value operator()(bool v) const { return v; }
    json::value operator()(double v) const {
      return std::isfinite(v) ? json::value(v) : json::value(nullptr);
    }
    json::value operator()(std::string_view v) const {
      return json::string(replace_invalid_utf8(v));
    }
    json::value operator()(const GgufArray& v) const {
      if (v.size() > kMaxJsonItems) return json::object{{"count", v.size()}};
      json::array out;
      std::visit(
          [&](const auto& items) {
            for (const auto& item : items) out.push_back((*this)(item));
          },
          v.items);
      return out;
    }
  };
  return std::visit(Visitor{}, value);
}

json::object kv_json(const KvSummary& kv) {
  return {{"n_layers", kv.n_layers},
          {"n_kv_heads", json::array(kv.n_kv_heads.begin(), kv.n_kv_heads.end())},
          {"key_length", kv.key_length},
          {"value_length", kv.value_length},
          {"window", kv.window == 0 ? json::value(nullptr) : json::value(kv.window)},
          {"bytes_per_token", json::object{{"f32", kv.bytes_per_token(4)},
                                           {"f16", kv.bytes_per_token(2)},
                                           {"bf16", kv.bytes_per_token(2)}}}};
}

json::object tokenizer_json(const TokenizerSummary& tokenizer) {
  json::object out{{"model", replace_invalid_utf8(tokenizer.model)},
                   {"known", tokenizer.data.has_value()},
                   {"vocab_size", tokenizer.vocab_size},
                   {"chat_template_bytes", tokenizer.chat_template_bytes}};
  if (!tokenizer.data) return out;
  const TokenizerData& data = *tokenizer.data;
  out["pre"] = replace_invalid_utf8(data.pre);
  out["merges"] = tokenizer.n_merges;
  json::object special;
  const std::pair<const char*, std::optional<TokenId>> ids[] = {
      {"bos", data.bos}, {"eos", data.eos}, {"eot", data.eot},
      {"eom", data.eom}, {"unk", data.unk}, {"pad", data.pad}};
  for (const auto& [name, id] : ids)
    if (id)
      special[name] = json::object{
          {"id", *id}, {"text", replace_invalid_utf8(data.tokens[static_cast<std::size_t>(*id)])}};
  out["special"] = std::move(special);
  out["add_bos"] = data.add_bos;
  out["add_eos"] = data.add_eos;
  out["add_space_prefix"] = data.add_space_prefix;
  out["remove_extra_whitespaces"] = data.remove_extra_whitespaces;
  return out;
}

}  // namespace

std::string inspect_json(const GgufFile& file, const ModelSummary& summary) {
  const std::string prefix = summary.architecture + ".";
  json::object hyper;
  json::object metadata;
  for (const GgufKeyValue& kv : file.metadata()) {
    if (kv.key.starts_with(prefix))
      hyper[kv.key.substr(prefix.size())] = to_json(kv.value);
    else if (!kv.key.starts_with("tokenizer."))
      metadata[kv.key] = to_json(kv.value);
  }
  json::array tensors;
  for (const GgufTensor& tensor : file.tensors())
    tensors.push_back(json::object{{"name", tensor.name},
                                   {"type", tensor_type_info(tensor.type).name},
                                   {"shape", json::array(tensor.ne.begin(), tensor.ne.end())},
                                   {"bytes", tensor.data.size()}});
  json::object out{{"file", replace_invalid_utf8(file.name())},
                   {"file_bytes", file.file_bytes()},
                   {"architecture", summary.architecture.empty()
                                        ? json::value(nullptr)
                                        : json::value(replace_invalid_utf8(summary.architecture))},
                   {"parameters", summary.n_parameters},
                   {"tensor_bytes", summary.tensor_bytes},
                   {"kv", summary.kv ? json::value(kv_json(*summary.kv)) : json::value(nullptr)},
                   {"tokenizer", summary.tokenizer ? json::value(tokenizer_json(*summary.tokenizer))
                                                   : json::value(nullptr)},
                   {"hyper_parameters", std::move(hyper)},
                   {"metadata", std::move(metadata)},
                   {"tensors", std::move(tensors)}};
  return json::serialize(out) + "\n";
}

}  // namespace quire
