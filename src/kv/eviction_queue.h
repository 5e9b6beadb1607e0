#pragma once
// In which order cached pages go: GreedyDual-Size-Frequency (Cherkasova, "Improving WWW Proxies
// Performance with Greedy-Dual-Size-Frequency Caching Policy", HP Labs 1998).

#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>

#include "kv/page_pool.h"

namespace quire {

/// A block goes in two parts. What is in window layers may go before the rest: a prefix that ends
/// well after the block does not need it.
enum class BlockPart : std::uint8_t {
  kBody,    // the block itself, with its pages of layers that see everything
  kWindow,  // its pages of window layers
};

/// Orders what can be reclaimed by value = clock + frequency * cost / size, least first. The clock
/// rises to the value of whatever goes, so that what is not asked for any more gets old.
class EvictionQueue {
 public:
  struct Entry {
    double value = 0;
    std::uint64_t tick = 0;  // of equal values the one valued first goes first
    BlockId block;
    BlockPart part = BlockPart::kBody;
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };

  /// What a part is worth from now on; it is not in the queue by that.
  Entry valued(BlockId block, BlockPart part, double worth) {
    return {clock_ + worth, next_tick_++, block, part};
  }
  void push(const Entry& entry) { entries_.insert(entry); }
  void remove(const Entry& entry) { entries_.erase(entry); }

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  bool contains(const Entry& entry) const { return entries_.contains(entry); }

  /// The least valuable; the clock follows.
  Entry pop() {
    const Entry least = *entries_.begin();
    entries_.erase(entries_.begin());
    if (least.value > clock_) clock_ = least.value;
    return least;
  }

 private:
  std::set<Entry> entries_;
  double clock_ = 0;
  std::uint64_t next_tick_ = 0;
};

}  // namespace quire
