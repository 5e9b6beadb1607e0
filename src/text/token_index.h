#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace quire {

/// From a token's text to its id: open addressing over borrowed strings, since loading a quarter of
/// a million tokens into a node-based map takes longer than everything else a tokenizer does.
/// Salted, since texts made to meet in one place would take hours.
class TokenIndex {
 public:
  TokenIndex() = default;
  explicit TokenIndex(std::size_t n_tokens);

  /// The text must outlive the index. The first of equal texts counts.
  void insert(std::string_view text, TokenId id);
  std::optional<TokenId> find(std::string_view text) const;

 private:
  struct Slot {
    const char* text = nullptr;  // null: free
    std::uint32_t size = 0;
    TokenId id = 0;
  };
  /// The slot of the text, or the free one where it would go.
  std::size_t locate(std::string_view text) const;

  std::vector<Slot> slots_;  // a power of two of them, at most half in use
  std::size_t longest_ = 0;  // bytes of the longest text
};

}  // namespace quire
