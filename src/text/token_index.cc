#include "text/token_index.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/salted_hash.h"

namespace quire {

TokenIndex::TokenIndex(std::size_t n_tokens) : slots_(std::bit_ceil(2 * n_tokens + 2)) {}

std::size_t TokenIndex::locate(std::string_view text) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = salted_hash(text) & mask;
  while (slots_[at].text != nullptr && std::string_view(slots_[at].text, slots_[at].size) != text) {
    at = (at + 1) & mask;
  }
  return at;
}

void TokenIndex::insert(std::string_view text, TokenId id) {
  if (text.empty()) return;
  QUIRE_CHECK(text.size() <= UINT32_MAX);
  Slot& slot = slots_[locate(text)];
  if (slot.text != nullptr) return;
  slot = {text.data(), static_cast<std::uint32_t>(text.size()), id};
  longest_ = std::max(longest_, text.size());
}

std::optional<TokenId> TokenIndex::find(std::string_view text) const {
  if (text.empty() || text.size() > longest_) return std::nullopt;
  const Slot& slot = slots_[locate(text)];
  if (slot.text == nullptr) return std::nullopt;
  return slot.id;
}

}  // namespace quire
