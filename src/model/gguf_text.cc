#include "model/gguf_text.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace quire {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

// The code point of a character that utf8_char_length accepted.
char32_t decode(std::string_view text, std::size_t length) {
  if (length == 1) return byte_at(text, 0);
  char32_t code = byte_at(text, 0) & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) code = code << 6 | (byte_at(text, i) & 0x3fu);
  return code;
}

bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }

// Characters that reorder or hide what stands around them on a terminal.
bool is_deceptive(char32_t c) {
  return is_control(c) || c == 0x061c || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

}  // namespace

std::size_t utf8_char_length(std::string_view text) {
  if (text.empty()) return 0;
  const std::uint8_t lead = byte_at(text, 0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte_at(text, i) & 0xc0) != 0x80) return 0;
  const std::uint8_t second = byte_at(text, 1);
  if (lead == 0xe0 && second < 0xa0) return 0;   // overlong
  if (lead == 0xed && second >= 0xa0) return 0;  // surrogates
  if (lead == 0xf0 && second < 0x90) return 0;   // overlong
  if (lead == 0xf4 && second >= 0x90) return 0;  // above U+10FFFF
  return length;
}

bool is_plain_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_char_length(text);
    if (length == 0 || is_deceptive(decode(text, length))) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return out + "...";
    std::size_t length = utf8_char_length(text);
    if (length > 0 && !is_deceptive(decode(text, length))) {
      out.append(text.substr(0, length));
    } else {
      length = length == 0 ? 1 : length;
      for (std::size_t i = 0; i < length; ++i)
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte_at(text, i));
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace quire
