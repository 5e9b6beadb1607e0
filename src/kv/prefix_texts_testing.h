#pragma once
// The truth that random lives of sequences are compared with: what is written where, and what was
// published.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "base/ids.h"

namespace quire::testing {

using Tokens = std::vector<TokenId>;

/// What slot p of a sequence with these tokens holds. 26 bits: write_slot() makes more of it.
inline std::uint32_t tag_of(std::size_t name_space, const Tokens& tokens, std::size_t p) {
  std::uint64_t hash = 14695981039346656037u + name_space;
  for (std::size_t i = 0; i <= p; ++i)
    hash = (hash ^ static_cast<std::uint64_t>(tokens[i])) * 1099511628211u;
  return static_cast<std::uint32_t>((hash ^ (hash >> 29)) & ((1u << 26) - 1));
}

/// Three endless texts: the second leaves the first after 21 tokens, the third after 48.
inline TokenId script(std::size_t which, std::size_t i) {
  const std::array<std::size_t, 3> leaves = {~std::size_t{0}, 21, 48};
  return static_cast<TokenId>(i >= leaves[which] ? 1000 * which + i % 5 : i % 7);
}

inline constexpr std::size_t kNamespaces = 2;
inline constexpr std::size_t kPrivate = 1000;  // plus a number of its own: shares nothing

/// What one namespace may have: texts of whole pages.
class PublishedTexts {
 public:
  void add(const Tokens& tokens, std::size_t page_size) {
    const std::size_t whole = tokens.size() / page_size * page_size;
    if (whole > 0)
      texts_.insert(Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(whole)));
  }
  /// The longest beginning of the first max_tokens of `tokens` that any of them has.
  std::size_t longest(const Tokens& tokens, std::size_t max_tokens) const {
    std::size_t longest = 0;
    for (const Tokens& other : texts_) {
      std::size_t n = 0;
      while (n < std::min(other.size(), max_tokens) && other[n] == tokens[n]) ++n;
      longest = std::max(longest, n);
    }
    return longest;
  }

 private:
  std::set<Tokens> texts_;
};

}  // namespace quire::testing
