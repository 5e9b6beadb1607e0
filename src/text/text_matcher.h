#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace quire {

/// Finds a set of strings in a text, in time linear in the text whatever the strings: an
/// Aho-Corasick automaton of the reversed strings, run from the text's end, so that what ends a
/// match there begins the longest one at that place here.
class TextMatcher {
 public:
  struct Entry {
    std::string_view text;  // needed only while the matcher is built
    TokenId id;
  };
  struct Match {
    TokenId id = 0;
    std::uint32_t length = 0;  // 0: none
  };

  TextMatcher() = default;
  /// Empty strings are left out; of equal ones the lowest id counts. 16 bytes are held for each
  /// byte of text that is not shared with another entry's end.
  explicit TextMatcher(std::vector<Entry> entries);

  bool empty() const { return nodes_.size() <= 1; }

  /// For each byte of the text the longest string that begins there. Strings may overlap.
  std::vector<Match> all(std::string_view text) const;

  struct Found {
    std::size_t begin = 0;
    Match match;
  };
  /// The strings in the text from left to right: of those that begin at one place the longest, and
  /// the next one behind it.
  std::vector<Found> split(std::string_view text) const;

  bool occurs_in(std::string_view text) const;

 private:
  struct Node {
    std::uint32_t first_child = 0;  // children lie side by side, by their byte
    std::uint32_t fail = 0;         // the node of the longest end of this one's string
    std::uint32_t match = 0;        // into matches_: the longest string that ends here
    std::uint16_t n_children = 0;
    std::uint8_t byte = 0;
  };

  void build(const std::vector<Entry>& sorted);
  std::uint32_t child(std::uint32_t node, std::uint8_t byte) const;
  std::uint32_t step(std::uint32_t node, std::uint8_t byte) const;

  std::vector<Node> nodes_;  // [0] is the root; a node's parent comes before it
  std::vector<Match> matches_{Match{}};
  std::array<std::uint32_t, 256> root_{};  // the root's children
};

}  // namespace quire
