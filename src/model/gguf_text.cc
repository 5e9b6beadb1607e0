#include "model/gguf_text.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

#include "text/utf8.h"

namespace quire {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

// The code point of a whole character of `length` bytes.
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

// Whether the step at the front of `text` is a character that may be shown as it is.
bool is_harmless(std::string_view text, const Utf8Step& step) {
  return step.kind == Utf8Step::Kind::kCharacter && !is_deceptive(decode(text, step.length));
}

}  // namespace

bool is_plain_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (!is_harmless(text, step)) return false;
    text.remove_prefix(step.length);
  }
  return true;
}

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return out + "...";
    const Utf8Step step = utf8_step(text);
    if (is_harmless(text, step)) {
      out.append(text.substr(0, step.length));
    } else {
      for (std::size_t i = 0; i < step.length; ++i)
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte_at(text, i));
    }
    text.remove_prefix(step.length);
  }
  return out;
}

}  // namespace quire
