#include "kv/validate.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "kv/kv_arithmetic.h"

namespace quire {
namespace {

/// Where the first table that mentions a page has it, and how often it is mentioned at all.
struct PageUse {
  std::uint32_t references = 0;
  std::size_t layer = 0;
  std::size_t page_index = 0;
};

class Checker {
 public:
  explicit Checker(const KvSnapshot& kv) : kv_(kv), uses_(kv.pages.size()) {}

  Status run() {
    QUIRE_RETURN_IF_ERROR(check_free_list());
    QUIRE_RETURN_IF_ERROR(check_reservation());
    for (const SequenceSnapshot& sequence : kv_.sequences) {
      if (sequence.tables.size() != kv_.windows.size())
        return broken(6, "sequence {} has {} page tables for {} layers", sequence.id,
                      sequence.tables.size(), kv_.windows.size());
      for (std::size_t layer = 0; layer < sequence.tables.size(); ++layer)
        QUIRE_RETURN_IF_ERROR(check_table(sequence, layer));
    }
    for (const BlockSnapshot& block : kv_.blocks) QUIRE_RETURN_IF_ERROR(count_pages(block));
    QUIRE_RETURN_IF_ERROR(check_references());
    // Needs every use counted.
    for (const SequenceSnapshot& sequence : kv_.sequences)
      if (sequence.pending > 0) QUIRE_RETURN_IF_ERROR(check_writer(sequence));
    QUIRE_RETURN_IF_ERROR(check_counts());
    return check_blocks(kv_);
  }

 private:
  Status check_counts() const {
    std::size_t hot = 0;
    std::size_t sealed = 0;
    std::size_t cached = 0;
    std::size_t pinned = 0;
    for (const PagePool::Page& page : kv_.pages) {
      hot += page.state == PageState::kHot;
      sealed += page.state == PageState::kSealed;
      cached += page.state == PageState::kCached;
      pinned += page.state == PageState::kCached && page.pinned;
    }
    if (kv_.pages_free + kv_.pages_hot + kv_.pages_sealed + kv_.pages_cached != kv_.pages_total)
      return broken(1, "{} free + {} hot + {} sealed + {} cached pages are not {} in total",
                    kv_.pages_free, kv_.pages_hot, kv_.pages_sealed, kv_.pages_cached,
                    kv_.pages_total);
    if (hot != kv_.pages_hot || sealed != kv_.pages_sealed || cached != kv_.pages_cached ||
        pinned != kv_.pages_cached_pinned)
      return broken(1,
                    "{} hot, {} sealed, {} cached and of these {} pinned pages are counted, {}, "
                    "{}, {} and {} exist",
                    kv_.pages_hot, kv_.pages_sealed, kv_.pages_cached, kv_.pages_cached_pinned, hot,
                    sealed, cached, pinned);
    if (kv_.sequences.empty() && kv_.pages_free + kv_.pages_cached != kv_.pages_total)
      return broken(9, "no sequence is left, but only {} of {} pages are free and {} cached",
                    kv_.pages_free, kv_.pages_total, kv_.pages_cached);
    return {};
  }

  Status check_free_list() const {
    if (kv_.pages.size() > kv_.pages_total)
      return broken(1, "{} pages are in use or were, of {}", kv_.pages.size(), kv_.pages_total);
    std::vector<bool> listed(kv_.pages.size());
    for (const PageId page : kv_.free_list) {
      if (page.value >= kv_.pages.size())
        return broken(2, "the free list has page {}, which does not exist", page.value);
      if (listed[page.value]) return broken(2, "page {} is in the free list twice", page.value);
      listed[page.value] = true;
    }
    for (std::size_t i = 0; i < kv_.pages.size(); ++i)
      if (listed[i] != (kv_.pages[i].state == PageState::kFree))
        return broken(2, "page {} is {} and {} the free list", i,
                      page_state_name(kv_.pages[i].state), listed[i] ? "in" : "not in");
    return {};
  }

  Status check_reservation() const {
    if (!kv_.reservation_alive && !kv_.reserved_sequences.empty())
      return broken(8, "sequences are reserved without a reservation");
    std::unordered_set<std::uint32_t> named;
    for (const std::uint32_t id : kv_.reserved_sequences)
      if (!named.insert(id).second) return broken(8, "the reservation names sequence {} twice", id);
    std::size_t n_pending = 0;
    for (const SequenceSnapshot& sequence : kv_.sequences) {
      const bool pending = sequence.pending > 0;
      n_pending += pending;
      if (pending != named.contains(sequence.id))
        return broken(8, "sequence {} has {} reserved tokens and is {} the reservation",
                      sequence.id, sequence.pending, pending ? "not in" : "in");
      for (const TableSnapshot& table : sequence.tables)
        if (table.held && !pending)
          return broken(8, "sequence {} holds page {} without a reservation", sequence.id,
                        table.held->value);
    }
    if (n_pending != named.size()) return broken(8, "the reservation names a released sequence");
    return {};
  }

  Status count_use(std::string_view owner, std::uint32_t id, PageId page, std::size_t layer,
                   std::size_t page_index) {
    if (page.value >= kv_.pages.size() || kv_.pages[page.value].state == PageState::kFree)
      return broken(3, "{} {} layer {} has page {}, which is free", owner, id, layer, page.value);
    PageUse& use = uses_[page.value];
    if (use.references++ == 0) {
      use.layer = layer;
      use.page_index = page_index;
    } else if (use.layer != layer || use.page_index != page_index) {
      return broken(4, "page {} is page {} of layer {} and page {} of layer {}", page.value,
                    use.page_index, use.layer, page_index, layer);
    }
    return {};
  }

  Status count_pages(const BlockSnapshot& block) {
    for (std::size_t layer = 0; layer < block.pages.size(); ++layer)
      if (block.pages[layer] != kNoPage)
        QUIRE_RETURN_IF_ERROR(
            count_use("block", block.id.value, block.pages[layer], layer, block.page_index));
    return {};
  }

  Status check_table(const SequenceSnapshot& sequence, std::size_t layer) {
    const TableSnapshot& table = sequence.tables[layer];
    QUIRE_RETURN_IF_ERROR(check_extent(sequence, layer));
    if (table.addresses.size() != table.pages.size())
      return broken(4, "sequence {} layer {} has {} pages and {} addresses", sequence.id, layer,
                    table.pages.size(), table.addresses.size());
    for (std::size_t i = 0; i < table.pages.size(); ++i) {
      const std::size_t index = table.first_page + i;
      const PageId page = table.pages[i];
      QUIRE_RETURN_IF_ERROR(count_use("sequence", sequence.id, page, layer, index));
      if (table.addresses[i] != kv_.arena + page.value * kv_.page_bytes)
        return broken(4, "sequence {} layer {} has another address for page {}", sequence.id, layer,
                      page.value);
      const bool hot = kv_.pages[page.value].state == PageState::kHot;
      const bool full = (index + 1) * kv_.page_size <= sequence.length;
      if (hot && full)
        return broken(5, "page {} is full in sequence {} layer {}, but still hot", page.value,
                      sequence.id, layer);
    }
    if (!table.held) return {};
    // Its place is that of the copy: the page of the first reserved token.
    return count_use("sequence", sequence.id, *table.held, layer, sequence.length / kv_.page_size);
  }

  Status check_extent(const SequenceSnapshot& sequence, std::size_t layer) const {
    const TableSnapshot& table = sequence.tables[layer];
    const std::size_t length = sequence.length;
    const std::size_t end = table.first_page + table.pages.size();
    const std::size_t visible = first_visible_position(length, kv_.windows[layer]);
    if (table.first_page != visible / kv_.page_size)
      return broken(7, "sequence {} layer {} of {} tokens and window {} starts at page {}, not {}",
                    sequence.id, layer, length, kv_.windows[layer], table.first_page,
                    visible / kv_.page_size);
    // Truncated where nothing committed is visible (a window of one token): the page of the next
    // token may be missing until it is reserved.
    const bool nothing_visible = table.pages.empty() && visible == length && sequence.pending == 0;
    if (end != pages_for(length + sequence.pending, kv_.page_size) && !nothing_visible)
      return broken(6, "sequence {} layer {} ends at page {} with {} tokens and {} reserved",
                    sequence.id, layer, end, length, sequence.pending);
    return {};
  }

  Status check_references() const {
    for (std::size_t i = 0; i < kv_.pages.size(); ++i)
      if (kv_.pages[i].references != uses_[i].references)
        return broken(3, "page {} counts {} references, {} exist", i, kv_.pages[i].references,
                      uses_[i].references);
    return {};
  }

  /// Pages a reservation lets someone write to.
  Status check_writer(const SequenceSnapshot& writer) const {
    for (std::size_t layer = 0; layer < writer.tables.size(); ++layer) {
      const TableSnapshot& table = writer.tables[layer];
      for (std::size_t i = writer.length / kv_.page_size - table.first_page; i < table.pages.size();
           ++i) {
        const PageId page = table.pages[i];
        if (kv_.pages[page.value].state != PageState::kHot)
          return broken(10, "sequence {} layer {} may write to page {}, which is sealed", writer.id,
                        layer, page.value);
        const std::uint32_t held = holders(page, layer, writer.length);
        if (kv_.pages[page.value].references != 1 + held)
          return broken(10, "sequence {} layer {} may write to page {}, which others read",
                        writer.id, layer, page.value);
      }
    }
    return {};
  }

  /// References kept for a rollback by sequences that see nothing past `length`.
  std::uint32_t holders(PageId page, std::size_t layer, std::size_t length) const {
    return static_cast<std::uint32_t>(
        std::count_if(kv_.sequences.begin(), kv_.sequences.end(), [&](const auto& sequence) {
          return sequence.tables[layer].held == page && sequence.length <= length;
        }));
  }

  const KvSnapshot& kv_;
  std::vector<PageUse> uses_;  // [n_pages]
};

}  // namespace

Status check_invariants(const KvSnapshot& kv) { return Checker(kv).run(); }

}  // namespace quire
