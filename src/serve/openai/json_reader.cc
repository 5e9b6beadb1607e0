#include "serve/openai/json_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "text/utf8.h"

namespace quire::openai {
namespace {

namespace json = boost::json;

constexpr double kTwoTo63 = 9223372036854775808.0;

std::string_view kind_name(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::int64:
    case json::kind::uint64:
      return "an integer";
    case json::kind::double_:
      return "a decimal";
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
  }
  return "something else";
}

template <typename T>
void out_of_range(const std::string& path, std::string_view kind, bool above, T limit,
                  std::string_view got, FirstError& error) {
  error.set(invalid_field(path, fmt::format("{}_{}_value", kind, above ? "above_max" : "below_min"),
                          "Invalid '{}': {} {} value. Expected a value {} {}, but got {} instead.",
                          path, kind, above ? "above maximum" : "below minimum",
                          above ? "<=" : ">=", limit, got));
}

}  // namespace

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 64;
  if (text.size() <= kMost) return std::string(text);
  const std::string_view head = text.substr(0, kMost);
  return std::string(head.substr(0, valid_utf8_length(head))) + "…";
}

std::string field_path(std::string_view parent, std::string_view name) {
  return parent.empty() ? shown(name) : fmt::format("{}.{}", parent, shown(name));
}

std::string item_path(std::string_view parent, std::size_t index) {
  return fmt::format("{}[{}]", parent, index);
}

void wrong_type(const json::value& value, const std::string& path, std::string_view expected,
                FirstError& error) {
  error.set(invalid_field(path, "invalid_type",
                          "Invalid type for '{}': expected {}, but got {} instead.", path, expected,
                          kind_name(value)));
}

std::optional<double> to_number(const json::value& value, const std::string& path, double min,
                                double max, FirstError& error) {
  double number = 0;
  if (const auto* x = value.if_double())
    number = *x;
  else if (const auto* i = value.if_int64())
    number = static_cast<double>(*i);
  else if (const auto* u = value.if_uint64())
    number = static_cast<double>(*u);
  else {
    wrong_type(value, path, "a decimal", error);
    return std::nullopt;
  }
  // Written so that NaN is outside.
  if (number >= min && number <= max) return number;
  const bool above = !(number < min);
  out_of_range(path, "decimal", above, above ? max : min, fmt::format("{}", number), error);
  return std::nullopt;
}

std::optional<std::int64_t> to_integer(const json::value& value, const std::string& path,
                                       std::int64_t min, std::int64_t max, FirstError& error) {
  std::int64_t number = 0;
  std::string got;
  bool above = false;
  if (const auto* i = value.if_int64()) {
    number = *i;
    if (number >= min && number <= max) return number;
    above = number > max;
    got = fmt::format("{}", number);
  } else if (const auto* u = value.if_uint64()) {  // only what is above an int64's range
    above = true;
    got = fmt::format("{}", *u);
  } else if (const auto* x = value.if_double(); x && (std::trunc(*x) == *x || std::isinf(*x))) {
    // -2^63 itself would come as an int64: as a double it is an integer below that, rounded.
    if (*x > -kTwoTo63 && *x < kTwoTo63) {
      number = static_cast<std::int64_t>(*x);
      if (number >= min && number <= max) return number;
    }
    above = *x >= static_cast<double>(max);  // which may be rounded up, to 2^63
    got = fmt::format("{}", *x);
  } else {
    wrong_type(value, path, "an integer", error);
    return std::nullopt;
  }
  out_of_range(path, "integer", above, above ? max : min, got, error);
  return std::nullopt;
}

std::optional<std::string> to_text(const json::value& value, const std::string& path,
                                   FirstError& error) {
  if (const auto* text = value.if_string()) return std::string(text->data(), text->size());
  wrong_type(value, path, "a string", error);
  return std::nullopt;
}

const json::object* to_object(const json::value& value, const std::string& path,
                              FirstError& error) {
  if (const auto* object = value.if_object()) return object;
  wrong_type(value, path, "an object", error);
  return nullptr;
}

const json::array* to_array(const json::value& value, const std::string& path, FirstError& error) {
  if (const auto* array = value.if_array()) return array;
  wrong_type(value, path, "an array", error);
  return nullptr;
}

const json::value* FieldReader::any(std::string_view name) {
  asked_.push_back(name);
  const json::value* value = object_->if_contains({name.data(), name.size()});
  return value != nullptr && !value->is_null() ? value : nullptr;
}

std::optional<double> FieldReader::number(std::string_view name, double min, double max) {
  const json::value* value = any(name);
  return value ? to_number(*value, path(name), min, max, *error_) : std::nullopt;
}

std::optional<std::int64_t> FieldReader::integer(std::string_view name, std::int64_t min,
                                                 std::int64_t max) {
  const json::value* value = any(name);
  return value ? to_integer(*value, path(name), min, max, *error_) : std::nullopt;
}

std::optional<bool> FieldReader::boolean(std::string_view name) {
  const json::value* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (const bool* flag = value->if_bool()) return *flag;
  wrong_type(*value, path(name), "a boolean", *error_);
  return std::nullopt;
}

std::optional<std::string> FieldReader::text(std::string_view name) {
  const json::value* value = any(name);
  return value ? to_text(*value, path(name), *error_) : std::nullopt;
}

std::optional<std::string> FieldReader::word(std::string_view name,
                                             std::initializer_list<std::string_view> words) {
  auto given = text(name);
  if (!given || std::find(words.begin(), words.end(), *given) != words.end()) return given;
  error_->set(invalid_field(path(name), "invalid_value",
                            "Invalid value for '{}': '{}'. Supported values are: '{}'.", path(name),
                            shown(*given), fmt::join(words, "', '")));
  return std::nullopt;
}

const json::object* FieldReader::object(std::string_view name) {
  const json::value* value = any(name);
  return value ? to_object(*value, path(name), *error_) : nullptr;
}

const json::array* FieldReader::array(std::string_view name) {
  const json::value* value = any(name);
  return value ? to_array(*value, path(name), *error_) : nullptr;
}

bool FieldReader::require(std::string_view name) {
  asked_.push_back(name);
  const json::value* value = object_->if_contains({name.data(), name.size()});
  if (value == nullptr) {
    error_->set(invalid_field(path(name), "missing_required_parameter",
                              "Missing required parameter: '{}'.", path(name)));
    return false;
  }
  if (!value->is_null()) return true;
  error_->set(invalid_field(path(name), "invalid_type",
                            "Invalid type for '{}': it is required, but got null.", path(name)));
  return false;
}

void FieldReader::ignore(std::string_view name, JsonKind kind) {
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  switch (kind) {
    case JsonKind::kBoolean:
      boolean(name);
      return;
    case JsonKind::kInteger:
      integer(name, kMin, kMax);
      return;
    case JsonKind::kText:
      text(name);
      return;
    case JsonKind::kArray:
      array(name);
      return;
    case JsonKind::kObject:
      object(name);
      return;
    case JsonKind::kAny:
      any(name);
      return;
  }
}

void FieldReader::refuse(std::string_view name, std::string_view why) {
  if (any(name) == nullptr) return;
  error_->set(invalid_field(path(name), "unsupported_parameter", "'{}' is not supported: {}.",
                            path(name), why));
}

void FieldReader::unsupported(std::string_view name, std::string_view why) {
  error_->set(invalid_field(path(name), "unsupported_value",
                            "This value of '{}' is not supported: {}.", path(name), why));
}

void FieldReader::done() {
  for (const auto& field : *object_) {
    const std::string_view name(field.key().data(), field.key().size());
    if (std::find(asked_.begin(), asked_.end(), name) != asked_.end()) continue;
    error_->set(
        invalid_field(path(name), "unknown_parameter", "Unknown parameter: '{}'.", path(name)));
    return;
  }
}

}  // namespace quire::openai
