#include "text/utf8.h"

#include "base/check.h"

namespace quire {

Utf8Step utf8_step(std::string_view text) {
  QUIRE_CHECK(!text.empty());
  using Kind = Utf8Step::Kind;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };

  const unsigned char lead = byte(0);
  if (lead < 0x80) return {Kind::kCharacter, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Kind::kInvalid, 1};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte is narrower after these leads: no overlong forms, surrogates, or values
  // beyond U+10FFFF.
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Kind::kIncomplete, i};
    if (byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xBF)) {
      return {Kind::kInvalid, i};
    }
  }
  return {Kind::kCharacter, length};
}

std::size_t valid_utf8_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const Utf8Step step = utf8_step(text.substr(length));
    if (step.kind != Utf8Step::Kind::kCharacter) break;
    length += step.length;
  }
  return length;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.kind == Utf8Step::Kind::kCharacter) {
      out.append(text.substr(0, step.length));
    } else {
      out.append(kReplacementCharacter);
    }
    text.remove_prefix(step.length);
  }
  return out;
}

}  // namespace quire
