#include "serve/openai/json_body.h"

#include <boost/json/basic_parser_impl.hpp>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "serve/openai/json_reader.h"

namespace quire::openai {
namespace {

namespace json = boost::json;
using boost::json::error_code;
using boost::json::string_view;

/// Builds the value as json::parser does, and knows the keys on the way to where it is.
class Builder {
 public:
  // The parser asks for these names.
  // NOLINTBEGIN(readability-identifier-naming)
  static constexpr std::size_t max_object_size = kMaxJsonKeys;
  static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_key_size = std::size_t{1} << 16;
  static constexpr std::size_t max_string_size = std::numeric_limits<std::size_t>::max();
  // NOLINTEND(readability-identifier-naming)

  Builder() { stack_.reset(); }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }

  bool on_object_begin(error_code&) {
    objects_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t n, error_code&) {
    stack_.push_object(n);
    objects_.pop_back();
    return true;
  }
  bool on_array_begin(error_code&) { return true; }
  bool on_array_end(std::size_t n, error_code&) {
    stack_.push_array(n);
    return true;
  }

  bool on_key_part(string_view part, std::size_t, error_code&) {
    stack_.push_chars(part);
    partial_key_.append(part.data(), part.size());
    return true;
  }
  bool on_key(string_view part, std::size_t, error_code& ec) {
    stack_.push_key(part);
    partial_key_.append(part.data(), part.size());
    Object& object = objects_.back();
    object.key = std::exchange(partial_key_, {});
    if (object.keys.insert(object.key).second) return true;
    duplicate_ = true;
    ec = json::error::exception;  // any: the message is made from duplicate_
    return false;
  }
  bool on_string_part(string_view part, std::size_t, error_code&) {
    stack_.push_chars(part);
    return true;
  }
  bool on_string(string_view part, std::size_t, error_code&) {
    stack_.push_string(part);
    return true;
  }
  bool on_number_part(string_view, error_code&) { return true; }
  bool on_int64(std::int64_t x, string_view, error_code&) {
    stack_.push_int64(x);
    return true;
  }
  bool on_uint64(std::uint64_t x, string_view, error_code&) {
    stack_.push_uint64(x);
    return true;
  }
  bool on_double(double x, string_view, error_code&) {
    stack_.push_double(x);
    return true;
  }
  bool on_bool(bool x, error_code&) {
    stack_.push_bool(x);
    return true;
  }
  bool on_null(error_code&) {
    stack_.push_null();
    return true;
  }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

  json::value release() { return stack_.release(); }
  bool duplicate() const { return duplicate_; }
  /// Keys down to the last one read, as "stream_options.include_usage".
  std::string path() const {
    std::string out;
    for (const Object& object : objects_) {
      if (object.key.empty()) break;
      if (!out.empty()) out += '.';
      out += shown(object.key);
    }
    return out;
  }

 private:
  struct Object {
    std::set<std::string> keys;
    std::string key;
  };
  json::value_stack stack_;
  std::vector<Object> objects_;  // those that are open
  std::string partial_key_;
  bool duplicate_ = false;
};

ApiError syntax_error(const Builder& builder, error_code ec, std::size_t at) {
  const std::string path = builder.path();
  if (builder.duplicate())
    return invalid_field(path, "duplicate_key", "The key '{}' occurs twice in one object.", path);
  if (ec == json::error::too_deep)
    return invalid_field(path, "invalid_json", "The body is nested deeper than {} levels.",
                         kMaxJsonDepth);
  if (ec == json::error::object_too_large)
    return invalid_field(path, "invalid_json", "The body has an object of more than {} keys.",
                         kMaxJsonKeys);
  return invalid_field(path, "invalid_json",
                       "We could not parse the JSON body of your request at byte {}: {}.", at,
                       ec.message());
}

}  // namespace

ApiResult<json::object> parse_body(std::string_view text) {
  json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  json::basic_parser<Builder> parser(options);
  error_code ec;
  std::size_t done = 0;
  try {
    done = parser.write_some(false, text.data(), text.size(), ec);
    if (!ec && done < text.size()) ec = json::error::extra_data;
    if (ec) return fail(syntax_error(parser.handler(), ec, done));
    json::value value = parser.handler().release();
    if (auto* object = value.if_object()) return std::move(*object);
  } catch (const std::bad_alloc&) {
    return fail(ApiError{.http_status = 413,
                         .message = "The body is too large for the memory there is.",
                         .param = {},
                         .code = "request_too_large"});
  }
  return fail(invalid_field("", "invalid_type", "The body must be a JSON object."));
}

}  // namespace quire::openai
