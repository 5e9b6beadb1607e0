#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace quire {

/// Finds the longest of a set of strings that a text begins with. The strings are borrowed.
class PrefixMatcher {
 public:
  struct Entry {
    std::string_view text;
    TokenId id;
  };
  struct Match {
    TokenId id;
    std::size_t length;
  };

  PrefixMatcher() = default;
  /// Empty strings are left out; of equal ones the lowest id counts.
  explicit PrefixMatcher(std::vector<Entry> entries);

  std::optional<Match> longest(std::string_view text) const;

 private:
  std::vector<Entry> entries_;  // sorted by text
  // Where the entries of each first byte begin; [256] is the end.
  std::array<std::size_t, 257> first_byte_{};
};

}  // namespace quire
