#include "engine/opaque_text.h"

#include <algorithm>
#include <cstdint>

#include "text/utf8.h"

namespace quire {
namespace {

// Private-use characters: no letters, no white space, nothing that a template would change.
constexpr char32_t kShortMarks = 0xE000;  // three bytes; for the characters up to kShortEnd
constexpr char32_t kShortEnd = 0x1900;
constexpr char32_t kLongMarks = 0xF0000;
constexpr char32_t kLongMask = 0x1FFFF;
// White space keeps being white space, so that it is trimmed where the original is.
constexpr char32_t kSpaceMark = 0x2003;
constexpr char32_t kOtherSpaceMark = 0x2002;

// What str.strip() of Python removes.
bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_ascii_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

// The character at the front of `text`, which loses it; what is not UTF-8 as U+FFFD.
char32_t take_character(std::string_view& text) {
  const Utf8Step step = utf8_step(text);
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  char32_t c = 0xFFFD;
  if (step.kind == Utf8Step::Kind::kCharacter) {
    c = step.length == 1 ? byte(0) : byte(0) & (0x7Fu >> step.length);
    for (std::size_t i = 1; i < step.length; ++i) c = c << 6 | (byte(i) & 0x3Fu);
  }
  text.remove_prefix(step.length);
  return c;
}

}  // namespace

OpaqueText::OpaqueText(const TokenizerData& data) {
  for (std::size_t i = 0; i < data.tokens.size() && i < data.kinds.size(); ++i) {
    if (!is_special(data.kinds[i])) continue;
    for (std::string_view rest = data.tokens[i]; !rest.empty();) {
      alphabet_.insert(take_character(rest));
    }
  }
}

char32_t OpaqueText::marked(char32_t c) const {
  const bool harmless = is_space(c) || (c < 0x80 && !is_ascii_letter(c));
  if (harmless && !alphabet_.contains(c)) return c;
  if (is_space(c)) return c == kSpaceMark ? kOtherSpaceMark : kSpaceMark;
  return c < kShortEnd ? kShortMarks + c : kLongMarks + (c & kLongMask);
}

bool OpaqueText::is_mark_of(char32_t mark, char32_t c) const {
  if (mark == marked(c)) return true;
  const bool letter = is_ascii_letter(c) || c >= 0x80;
  // Beyond ASCII, which letters belong together is not looked up: any mark of one will do.
  const bool of_wide =
      (mark >= kShortMarks + 0x80 && mark < kShortMarks + kShortEnd) || mark >= kLongMarks;
  return letter && (of_wide || (is_ascii_letter(c) && mark == marked(c ^ 0x20u)));
}

std::string OpaqueText::mark(std::string_view text, const TextMatcher& readable,
                             const TextMatcher& special) const {
  std::string out;
  out.reserve(3 * text.size());
  const auto matches = readable.all(text);
  const auto specials = special.all(text);
  std::size_t readable_end = 0;
  std::size_t special_end = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t at = text.size() - rest.size();
    readable_end = std::max(readable_end, at + matches[at].length);
    special_end = std::max(special_end, at + specials[at].length);
    const char32_t c = take_character(rest);
    append_utf8(out, at < readable_end && at >= special_end ? c : marked(c));
  }
  return out;
}

std::optional<std::vector<bool>> OpaqueText::written_by_template(
    std::string_view rendered, std::string_view with_marks) const {
  std::vector<bool> written(rendered.size());
  const std::size_t size = rendered.size();
  while (!rendered.empty() && !with_marks.empty()) {
    const std::size_t begin = size - rendered.size();
    const char32_t original = take_character(rendered);
    const char32_t other = take_character(with_marks);
    if (original == other) {
      std::fill(written.begin() + static_cast<std::ptrdiff_t>(begin),
                written.end() - static_cast<std::ptrdiff_t>(rendered.size()), true);
    } else if (!is_mark_of(other, original)) {
      return std::nullopt;
    }
  }
  if (!rendered.empty() || !with_marks.empty()) return std::nullopt;
  return written;
}

}  // namespace quire
