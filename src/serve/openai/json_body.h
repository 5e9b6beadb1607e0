#pragma once

#include <boost/json.hpp>
#include <cstddef>
#include <string_view>

#include "serve/openai/api_error.h"

namespace quire::openai {

/// Deeper nesting is refused before it can exhaust a stack.
inline constexpr std::size_t kMaxJsonDepth = 64;
/// More keys in one object are refused: the worst a chosen set of them can cost is bounded.
inline constexpr std::size_t kMaxJsonKeys = 1024;

/// A request's body, which must be one JSON object. Refused: what is not JSON or not UTF-8 (NaN and
/// comments are neither), and a key that occurs twice in one object, since programs disagree about
/// which of the two counts. The error names the key where it happened.
ApiResult<boost::json::object> parse_body(std::string_view text);

}  // namespace quire::openai
