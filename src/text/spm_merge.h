#pragma once

#include <functional>
#include <string_view>
#include <vector>

namespace quire {

/// A stretch of the text that is to become one token, if it can.
struct SpmSymbol {
  std::string_view text;
  bool frozen = false;  // a user-defined token: it does not merge
  int previous = -1;    // neighbours still alive, as indices; -1: none
  int next = -1;
};

/// The score that a merged text has as a token; nullptr if it is none.
using SpmScore = std::function<const float*(std::string_view)>;

/// Merges neighbours, best score first and leftmost among equals, until nothing merges; a symbol
/// that was merged into its left neighbour has an empty text. O(n log n).
void spm_merge(std::vector<SpmSymbol>& symbols, const SpmScore& score);

}  // namespace quire
