#include <limits>
#include <utility>

#include "serve/openai/requests.h"

namespace quire::openai {
namespace {

namespace json = boost::json;

constexpr std::int64_t kMaxTokenId = std::numeric_limits<TokenId>::max();

ApiError empty_input(const std::string& path) {
  return invalid_field(path, "invalid_value", "'{}' must not be empty.", path);
}

std::optional<PromptInput> read_prompt(const json::value& value, const std::string& path,
                                       FirstError& error) {
  if (value.is_string()) return PromptInput(*to_text(value, path, error));
  if (const json::array* tokens = value.if_array()) {
    if (tokens->empty()) {
      error.set(empty_input(path));
      return std::nullopt;
    }
    return PromptInput(read_tokens(*tokens, path, error));
  }
  wrong_type(value, path, "a string or an array of token ids", error);
  return std::nullopt;
}

}  // namespace

std::string read_model(FieldReader& fields) { return fields.text("model").value_or(""); }

std::vector<TokenId> read_tokens(const json::array& items, const std::string& path,
                                 FirstError& error) {
  std::vector<TokenId> out;
  out.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    // The path is made only for what is wrong: a prompt may have a million tokens.
    if (const auto* id = items[i].if_int64(); id && *id >= 0 && *id <= kMaxTokenId) {
      out.push_back(static_cast<TokenId>(*id));
      continue;
    }
    const auto id = to_integer(items[i], item_path(path, i), 0, kMaxTokenId, error);
    if (!id) break;
    out.push_back(static_cast<TokenId>(*id));
  }
  return out;
}

std::vector<PromptInput> read_prompts(FieldReader& fields, std::string_view name,
                                      std::size_t max_prompts) {
  FirstError& error = fields.error();
  const std::string path = fields.path(name);
  std::vector<PromptInput> out;
  fields.require(name);
  const json::value* value = fields.any(name);
  if (value == nullptr) return out;
  const json::array* items = value->if_array();
  if (items != nullptr && items->empty()) {
    error.set(empty_input(path));
    return out;
  }
  // One prompt: a string, or an array of numbers.
  if (items == nullptr || items->front().is_number()) {
    if (auto prompt = read_prompt(*value, path, error)) out.push_back(std::move(*prompt));
    return out;
  }
  if (items->size() > max_prompts) {
    error.set(invalid_field(path, "array_above_max_length",
                            "'{}' has {} entries, but at most {} are taken.", path, items->size(),
                            max_prompts));
    return out;
  }
  for (std::size_t i = 0; i < items->size() && !error.failed(); ++i) {
    if (auto prompt = read_prompt((*items)[i], item_path(path, i), error))
      out.push_back(std::move(*prompt));
  }
  return out;
}

}  // namespace quire::openai
