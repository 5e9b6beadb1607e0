#pragma once
// Reading fields of a request: every one has a type and a range, and none is overlooked.

#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/openai/api_error.h"

namespace quire::openai {

/// A client's own words, cut to a length that fits into a message.
std::string shown(std::string_view text);

/// "a.b", "[3]" behind a path; an empty path is the body itself.
std::string field_path(std::string_view parent, std::string_view name);
std::string item_path(std::string_view parent, std::size_t index);

/// The first error of a request. Readers go on after one, with fallbacks, so that code that reads
/// is not half tests.
class FirstError {
 public:
  void set(ApiError error) {
    if (!error_) error_ = std::move(error);
  }
  bool failed() const { return error_.has_value(); }
  const ApiError& error() const { return *error_; }

 private:
  std::optional<ApiError> error_;
};

// One value. Nothing, and an error, if it is of another type or out of range. A number without a
// fraction is an integer however it is written (as JSON Schema says).
std::optional<double> to_number(const boost::json::value& value, const std::string& path,
                                double min, double max, FirstError& error);
std::optional<std::int64_t> to_integer(const boost::json::value& value, const std::string& path,
                                       std::int64_t min, std::int64_t max, FirstError& error);
std::optional<std::string> to_text(const boost::json::value& value, const std::string& path,
                                   FirstError& error);
const boost::json::object* to_object(const boost::json::value& value, const std::string& path,
                                     FirstError& error);
const boost::json::array* to_array(const boost::json::value& value, const std::string& path,
                                   FirstError& error);
void wrong_type(const boost::json::value& value, const std::string& path, std::string_view expected,
                FirstError& error);

enum class JsonKind : std::uint8_t { kBoolean, kInteger, kText, kArray, kObject, kAny };

/// The fields of one object. A field that is null counts as absent. Fields that nobody asked for
/// are refused by done().
class FieldReader {
 public:
  FieldReader(const boost::json::object& object, std::string path, FirstError& error)
      : object_(&object), path_(std::move(path)), error_(&error) {}

  std::optional<double> number(std::string_view name, double min, double max);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t min, std::int64_t max);
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  /// One of a few words.
  std::optional<std::string> word(std::string_view name,
                                  std::initializer_list<std::string_view> words);
  const boost::json::object* object(std::string_view name);
  const boost::json::array* array(std::string_view name);
  /// Any type; null if absent.
  const boost::json::value* any(std::string_view name);

  /// An error if it is absent or null.
  bool require(std::string_view name);
  /// Has no effect on an answer here. Its type is checked all the same.
  void ignore(std::string_view name, JsonKind kind);
  /// An error unless it is absent: `why` ends the sentence "'name' is not supported: ".
  void refuse(std::string_view name, std::string_view why);
  /// An error: this value of a field that exists.
  void unsupported(std::string_view name, std::string_view why);

  void done();

  std::string path(std::string_view name) const { return field_path(path_, name); }
  FirstError& error() { return *error_; }

 private:
  const boost::json::object* object_;
  std::string path_;
  FirstError* error_;
  std::vector<std::string_view> asked_;
};

}  // namespace quire::openai
