#include "text/text_matcher.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

std::uint8_t from_end(std::string_view text, std::size_t i) {
  return byte_at(text, text.size() - 1 - i);
}

bool less_from_end(const TextMatcher::Entry& a, const TextMatcher::Entry& b) {
  const auto [i, j] = std::mismatch(a.text.rbegin(), a.text.rend(), b.text.rbegin(), b.text.rend());
  if (i == a.text.rend() || j == b.text.rend()) {
    return std::tuple(a.text.size(), a.id) < std::tuple(b.text.size(), b.id);
  }
  return static_cast<std::uint8_t>(*i) < static_cast<std::uint8_t>(*j);
}

}  // namespace

TextMatcher::TextMatcher(std::vector<Entry> entries) {
  std::erase_if(entries, [](const Entry& e) { return e.text.empty(); });
  std::ranges::sort(entries, less_from_end);
  const auto repeated = std::ranges::unique(entries, {}, &Entry::text);
  entries.erase(repeated.begin(), repeated.end());
  if (!entries.empty()) build(entries);
}

void TextMatcher::build(const std::vector<Entry>& sorted) {
  // Breadth first: a node stands for the entries [first, last) that share their last `depth` bytes.
  struct Range {
    std::uint32_t first, last, depth;
  };
  QUIRE_CHECK(sorted.size() < UINT32_MAX);
  std::vector<Range> ranges = {{0, static_cast<std::uint32_t>(sorted.size()), 0}};
  nodes_.emplace_back();
  for (std::uint32_t at = 0; at < nodes_.size(); ++at) {
    auto [first, last, depth] = ranges[at];
    if (sorted[first].text.size() == depth) {  // the shortest comes first
      nodes_[at].match = static_cast<std::uint32_t>(matches_.size());
      matches_.push_back({sorted[first].id, depth});
      ++first;
    } else {
      nodes_[at].match = nodes_[nodes_[at].fail].match;
    }
    nodes_[at].first_child = static_cast<std::uint32_t>(nodes_.size());
    while (first < last) {
      const std::uint8_t byte = from_end(sorted[first].text, depth);
      const auto end = std::upper_bound(
          sorted.begin() + first, sorted.begin() + last, byte,
          [depth](std::uint8_t b, const Entry& e) { return b < from_end(e.text, depth); });
      const auto next = static_cast<std::uint32_t>(end - sorted.begin());
      const auto made = static_cast<std::uint32_t>(nodes_.size());
      QUIRE_CHECK(made < UINT32_MAX);
      // Nodes that are shorter are complete, so the step from the parent's end is known.
      const std::uint32_t fail = at == 0 ? 0 : step(nodes_[at].fail, byte);
      nodes_.push_back({.fail = fail, .byte = byte});
      ranges.push_back({first, next, depth + 1});
      if (at == 0) root_[byte] = made;
      ++nodes_[at].n_children;
      first = next;
    }
  }
  nodes_.shrink_to_fit();
  matches_.shrink_to_fit();
}

std::uint32_t TextMatcher::child(std::uint32_t node, std::uint8_t byte) const {
  if (node == 0) return root_[byte];
  const auto begin = nodes_.begin() + nodes_[node].first_child;
  const auto end = begin + nodes_[node].n_children;
  const auto found = std::ranges::lower_bound(begin, end, byte, {}, &Node::byte);
  if (found == end || found->byte != byte) return 0;
  return static_cast<std::uint32_t>(found - nodes_.begin());
}

// Each failure makes the node shallower and each byte deeper by one at most: linear in the text.
std::uint32_t TextMatcher::step(std::uint32_t node, std::uint8_t byte) const {
  while (true) {
    const std::uint32_t next = child(node, byte);
    if (next != 0 || node == 0) return next;
    node = nodes_[node].fail;
  }
}

std::vector<TextMatcher::Match> TextMatcher::all(std::string_view text) const {
  std::vector<Match> out(text.size());
  if (empty()) return out;
  std::uint32_t node = 0;
  for (std::size_t i = text.size(); i-- > 0;) {
    node = step(node, byte_at(text, i));
    out[i] = matches_[nodes_[node].match];
  }
  return out;
}

std::vector<TextMatcher::Found> TextMatcher::split(std::string_view text) const {
  std::vector<Found> out;
  if (!occurs_in(text)) return out;
  const auto at = all(text);
  for (std::size_t i = 0; i < at.size(); i += std::max(at[i].length, 1u)) {
    if (at[i].length > 0) out.push_back({i, at[i]});
  }
  return out;
}

bool TextMatcher::occurs_in(std::string_view text) const {
  if (empty()) return false;
  std::uint32_t node = 0;
  for (std::size_t i = text.size(); i-- > 0;) {
    node = step(node, byte_at(text, i));
    if (nodes_[node].match != 0) return true;
  }
  return false;
}

}  // namespace quire
