#include "text/prefix_matcher.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

unsigned char byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

}  // namespace

PrefixMatcher::PrefixMatcher(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::erase_if(entries_, [](const Entry& e) { return e.text.empty(); });
  std::ranges::sort(entries_, {}, [](const Entry& e) { return std::pair(e.text, e.id); });
  const auto repeated = std::ranges::unique(entries_, {}, &Entry::text);
  entries_.erase(repeated.begin(), repeated.end());
  for (const Entry& entry : entries_) ++first_byte_[byte_at(entry.text, 0) + 1u];
  for (std::size_t b = 1; b < first_byte_.size(); ++b) first_byte_[b] += first_byte_[b - 1];
}

std::optional<PrefixMatcher::Match> PrefixMatcher::longest(std::string_view text) const {
  std::optional<Match> best;
  if (text.empty()) return best;
  // Among sorted strings those that share a prefix are neighbours, the prefix itself first: narrow
  // the range byte by byte.
  auto first = entries_.begin() + static_cast<std::ptrdiff_t>(first_byte_[byte_at(text, 0)]);
  auto last = entries_.begin() + static_cast<std::ptrdiff_t>(first_byte_[byte_at(text, 0) + 1u]);
  for (std::size_t length = 1; first != last; ++length) {
    if (first->text.size() == length) {
      best = Match{first->id, length};
      ++first;
    }
    if (length == text.size()) break;
    const auto next =
        std::ranges::equal_range(first, last, byte_at(text, length), {},
                                 [length](const Entry& e) { return byte_at(e.text, length); });
    first = next.begin();
    last = next.end();
  }
  return best;
}

}  // namespace quire
