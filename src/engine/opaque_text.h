#pragma once
// Which parts of a rendered chat template are the template's own. A template is rendered with the
// messages' contents as they are, and again with contents it cannot read: every character that
// could belong to a special token is another one there, a mark. What is the same in both renderings
// was written by the template.

#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "text/text_matcher.h"
#include "text/tokenizer.h"

namespace quire {

class OpaqueText {
 public:
  explicit OpaqueText(const TokenizerData& data);

  /// As many characters, with marks for all but white space and signs that are in no special token
  /// (a template may trim the one and escape the other), and but for the strings of `readable`
  /// where they do not touch a special token of the text. The text must be UTF-8.
  std::string mark(std::string_view text, const TextMatcher& readable,
                   const TextMatcher& special) const;

  /// For each byte of `rendered` whether the template wrote it, to judge by the same rendering with
  /// marks; nullopt if the two do not run side by side.
  std::optional<std::vector<bool>> written_by_template(std::string_view rendered,
                                                       std::string_view with_marks) const;

 private:
  char32_t marked(char32_t c) const;
  /// Also of the other case, which a template may make of it; marks have none.
  bool is_mark_of(char32_t mark, char32_t c) const;

  std::unordered_set<char32_t> alphabet_;  // the characters of special tokens
};

}  // namespace quire
