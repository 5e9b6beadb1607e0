#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

/// Ends a stream of text at the first stop string, however the text is cut into pieces. Text that
/// could be the beginning of a stop string is held back until it cannot; nothing of a stop string,
/// and nothing behind it, is ever given out.
///
/// "First" is the one complete first; of those complete at the same byte the longest. So "b" beats
/// "abc" in "xabc": the answer is "xa", whether or not more text would have come.
class StopMatcher {
 public:
  /// Refuses an empty stop string and one that is not UTF-8. None at all is fine.
  static Result<StopMatcher> create(std::vector<std::string> stops);

  /// The text that is now certain. Once stopped, pieces are ignored. Whole characters in, whole
  /// characters out.
  std::string push(std::string_view piece);

  /// What is still held back when the stream ends without a stop string.
  std::string finish();

  bool stopped() const { return !matched_.empty(); }
  /// The stop string that was found; empty before.
  const std::string& matched() const { return matched_; }

 private:
  struct Pattern {
    std::string text;
    std::vector<std::size_t> border;  // Knuth-Morris-Pratt: longest border of each prefix
    std::size_t matched = 0;          // bytes of `text` that end the stream so far
  };
  static std::size_t advance(const Pattern& pattern, std::size_t matched, char c);

  std::vector<Pattern> patterns_;
  std::string held_;
  std::string matched_;
};

}  // namespace quire
