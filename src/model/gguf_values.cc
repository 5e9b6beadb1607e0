// Typed reads of a GgufFile: what a model's code asks for, with errors that say what is there.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "model/gguf.h"

namespace quire {
namespace {

// The kind of a value, for "expected an unsigned integer, found ...".
std::string kind_of(const GgufValue& value) {
  struct Visitor {
    std::string operator()(std::uint64_t v) const { return fmt::format("the integer {}", v); }
    std::string operator()(std::int64_t v) const { return fmt::format("the integer {}", v); }
    std::string operator()(double v) const { return fmt::format("the number {}", v); }
    std::string operator()(bool) const { return "a boolean"; }
    std::string operator()(std::string_view) const { return "a string"; }
    std::string operator()(const GgufArray& a) const {
      return fmt::format(
          "an array of {} {}", a.size(),
          std::array{"integers", "integers", "numbers", "booleans", "strings"}[a.items.index()]);
    }
  };
  return std::visit(Visitor{}, value);
}

std::optional<std::uint64_t> as_uint(const GgufValue& value) {
  if (const auto* u = std::get_if<std::uint64_t>(&value)) return *u;
  if (const auto* i = std::get_if<std::int64_t>(&value); i != nullptr && *i >= 0)
    return static_cast<std::uint64_t>(*i);
  return std::nullopt;
}

std::span<const std::uint64_t> without_trailing_ones(std::span<const std::uint64_t> ne) {
  while (ne.size() > 1 && ne.back() == 1) ne = ne.first(ne.size() - 1);
  return ne;
}

tl::unexpected<Error> wrong(const GgufFile& file, const GgufKeyValue& kv,
                            std::string_view expected) {
  return fail(ErrorCode::kInvalidData, "{}: key '{}' at byte {}: expected {}, found {}",
              file.name(), kv.key, kv.offset, expected, kind_of(kv.value));
}

tl::unexpected<Error> missing(const GgufFile& file, std::string_view key) {
  return fail(ErrorCode::kNotFound, "{}: key '{}' is missing", file.name(), key);
}

// The value of a key that must hold a T if it is there at all.
template <typename T>
Result<std::optional<T>> optional(const GgufFile& file, std::string_view key,
                                  std::string_view expected) {
  const GgufKeyValue* kv = file.find_key(key);
  if (kv == nullptr) return std::nullopt;
  const T* value = std::get_if<T>(&kv->value);
  if (value == nullptr) return wrong(file, *kv, expected);
  return *value;
}

}  // namespace

Result<std::optional<std::uint64_t>> GgufFile::optional_uint(std::string_view key,
                                                             std::uint64_t min,
                                                             std::uint64_t max) const {
  const GgufKeyValue* kv = find_key(key);
  if (kv == nullptr) return std::nullopt;
  const auto value = as_uint(kv->value);
  if (!value || *value < min || *value > max)
    return wrong(*this, *kv, fmt::format("an integer from {} to {}", min, max));
  return value;
}

Result<std::uint64_t> GgufFile::require_uint(std::string_view key, std::uint64_t min,
                                             std::uint64_t max) const {
  QUIRE_ASSIGN_OR_RETURN(const auto value, optional_uint(key, min, max));
  if (!value) return missing(*this, key);
  return *value;
}

Result<std::optional<double>> GgufFile::optional_float(std::string_view key) const {
  QUIRE_ASSIGN_OR_RETURN(const auto value, optional<double>(*this, key, "a number"));
  if (value && !std::isfinite(*value)) return wrong(*this, *find_key(key), "a finite number");
  return value;
}

Result<std::optional<bool>> GgufFile::optional_bool(std::string_view key) const {
  return optional<bool>(*this, key, "a boolean");
}

Result<std::optional<std::string>> GgufFile::optional_string(std::string_view key) const {
  QUIRE_ASSIGN_OR_RETURN(const auto value, optional<std::string_view>(*this, key, "a string"));
  if (!value) return std::nullopt;
  if (value->size() > kMaxGgufReadString)
    return refuse(key, fmt::format("a string of {} bytes, at most {} allowed", value->size(),
                                   kMaxGgufReadString));
  return std::string(*value);
}

Result<std::string> GgufFile::require_string(std::string_view key) const {
  QUIRE_ASSIGN_OR_RETURN(auto value, optional_string(key));
  if (!value) return missing(*this, key);
  return std::move(*value);
}

Result<std::optional<std::vector<std::uint64_t>>> GgufFile::optional_uints(
    std::string_view key) const {
  const GgufKeyValue* kv = find_key(key);
  if (kv == nullptr) return std::nullopt;
  if (const auto one = as_uint(kv->value)) return std::vector<std::uint64_t>{*one};
  constexpr std::string_view kExpected = "a non-negative integer or an array of them";
  const auto* array = std::get_if<GgufArray>(&kv->value);
  if (array == nullptr) return wrong(*this, *kv, kExpected);
  if (const auto* u = std::get_if<std::vector<std::uint64_t>>(&array->items)) return *u;
  const auto* i = std::get_if<std::vector<std::int64_t>>(&array->items);
  if (i == nullptr || std::any_of(i->begin(), i->end(), [](std::int64_t v) { return v < 0; }))
    return wrong(*this, *kv, kExpected);
  return std::vector<std::uint64_t>(i->begin(), i->end());
}

Result<const std::vector<std::string_view>*> GgufFile::optional_strings(
    std::string_view key) const {
  const GgufKeyValue* kv = find_key(key);
  if (kv == nullptr) return nullptr;
  const auto* array = std::get_if<GgufArray>(&kv->value);
  const auto* strings =
      array == nullptr ? nullptr : std::get_if<std::vector<std::string_view>>(&array->items);
  if (strings == nullptr) return wrong(*this, *kv, "an array of strings");
  return strings;
}

Result<std::optional<std::vector<std::int64_t>>> GgufFile::optional_ints(
    std::string_view key) const {
  const GgufKeyValue* kv = find_key(key);
  if (kv == nullptr) return std::nullopt;
  constexpr std::string_view kExpected = "an array of integers";
  const auto* array = std::get_if<GgufArray>(&kv->value);
  if (array == nullptr) return wrong(*this, *kv, kExpected);
  if (const auto* i = std::get_if<std::vector<std::int64_t>>(&array->items)) return *i;
  const auto* u = std::get_if<std::vector<std::uint64_t>>(&array->items);
  if (u == nullptr || std::any_of(u->begin(), u->end(), [](auto v) { return v > INT64_MAX; }))
    return wrong(*this, *kv, kExpected);
  return std::vector<std::int64_t>(u->begin(), u->end());
}

Result<std::optional<std::vector<double>>> GgufFile::optional_floats(std::string_view key) const {
  const GgufKeyValue* kv = find_key(key);
  if (kv == nullptr) return std::nullopt;
  constexpr std::string_view kExpected = "an array of finite numbers";
  const auto* array = std::get_if<GgufArray>(&kv->value);
  const auto* items = array == nullptr ? nullptr : std::get_if<std::vector<double>>(&array->items);
  if (items == nullptr) return wrong(*this, *kv, kExpected);
  if (!std::all_of(items->begin(), items->end(), [](double v) { return std::isfinite(v); }))
    return refuse(key, "it holds a number that is not finite");
  return *items;
}

tl::unexpected<Error> GgufFile::refuse(std::string_view key, std::string_view problem) const {
  const GgufKeyValue* kv = find_key(key);
  if (kv == nullptr) return missing(*this, key);
  return fail(ErrorCode::kInvalidData, "{}: key '{}' at byte {}: {}", name(), key, kv->offset,
              problem);
}

Result<const GgufTensor*> GgufFile::require_tensor(std::string_view tensor_name,
                                                   std::span<const std::uint64_t> ne) const {
  const GgufTensor* tensor = find_tensor(tensor_name);
  if (tensor == nullptr)
    return fail(ErrorCode::kNotFound, "{}: tensor '{}' is missing", name(), tensor_name);
  const std::span<const std::uint64_t> found = without_trailing_ones(tensor->ne);
  const std::span<const std::uint64_t> wanted = without_trailing_ones(ne);
  if (!std::equal(wanted.begin(), wanted.end(), found.begin(), found.end()))
    return fail(ErrorCode::kInvalidData,
                "{}: tensor '{}' at byte {} has dimensions {}, expected {}", name(), tensor_name,
                tensor->offset, fmt::join(tensor->ne, " x "), fmt::join(ne, " x "));
  return tensor;
}

}  // namespace quire
