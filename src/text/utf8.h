#pragma once
// UTF-8 as Python reads it: an invalid sequence is cut into maximal subparts (Unicode, chapter
// 3.9), and each of them counts as one bad character.

#include <cstddef>
#include <string>
#include <string_view>

namespace quire {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

struct Utf8Step {
  enum class Kind {
    kCharacter,   // `length` bytes are one character
    kInvalid,     // `length` bytes can never become one
    kIncomplete,  // the text ends inside what may still become one
  };
  Kind kind;
  std::size_t length;  // at least 1
};

/// What stands at the beginning of a text that is not empty.
Utf8Step utf8_step(std::string_view text);

/// Bytes in front of the first that is not UTF-8; all of them if there is none.
std::size_t valid_utf8_length(std::string_view text);

/// The text with U+FFFD for everything that is not UTF-8.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace quire
