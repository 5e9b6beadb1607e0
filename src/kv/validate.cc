#include "kv/validate.h"

#include <algorithm>
#include <unordered_set>

#include "kv/kv_arithmetic.h"
#include "kv/kv_state.h"

namespace quire {
namespace {

template <typename... Args>
[[nodiscard]] tl::unexpected<Error> broken(int rule, fmt::format_string<Args...> format,
                                           Args&&... args) {
  return fail(ErrorCode::kInvalidData, "KV rule K{}: {}", rule,
              fmt::format(format, std::forward<Args>(args)...));
}

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
    QUIRE_RETURN_IF_ERROR(check_references());
    // Needs every use counted.
    for (const SequenceSnapshot& sequence : kv_.sequences)
      if (sequence.pending > 0) QUIRE_RETURN_IF_ERROR(check_writer(sequence));
    return check_counts();
  }

 private:
  Status check_counts() const {
    std::size_t hot = 0;
    std::size_t sealed = 0;
    for (const PagePool::Page& page : kv_.pages) {
      hot += page.state == PageState::kHot;
      sealed += page.state == PageState::kSealed;
    }
    if (kv_.pages_free + kv_.pages_hot + kv_.pages_sealed != kv_.pages_total)
      return broken(1, "{} free + {} hot + {} sealed pages are not {} in total", kv_.pages_free,
                    kv_.pages_hot, kv_.pages_sealed, kv_.pages_total);
    if (hot != kv_.pages_hot || sealed != kv_.pages_sealed)
      return broken(1, "{} hot and {} sealed pages are counted, {} and {} exist", kv_.pages_hot,
                    kv_.pages_sealed, hot, sealed);
    if (kv_.sequences.empty() && kv_.pages_free != kv_.pages_total)
      return broken(9, "no sequence is left, but only {} of {} pages are free", kv_.pages_free,
                    kv_.pages_total);
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

  Status count_use(const SequenceSnapshot& sequence, PageId page, std::size_t layer,
                   std::size_t page_index) {
    if (page.value >= kv_.pages.size() || kv_.pages[page.value].state == PageState::kFree)
      return broken(3, "sequence {} layer {} has page {}, which is free", sequence.id, layer,
                    page.value);
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

  Status check_table(const SequenceSnapshot& sequence, std::size_t layer) {
    const TableSnapshot& table = sequence.tables[layer];
    QUIRE_RETURN_IF_ERROR(check_extent(sequence, layer));
    if (table.addresses.size() != table.pages.size())
      return broken(4, "sequence {} layer {} has {} pages and {} addresses", sequence.id, layer,
                    table.pages.size(), table.addresses.size());
    for (std::size_t i = 0; i < table.pages.size(); ++i) {
      const std::size_t index = table.first_page + i;
      const PageId page = table.pages[i];
      QUIRE_RETURN_IF_ERROR(count_use(sequence, page, layer, index));
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
    return count_use(sequence, *table.held, layer, sequence.length / kv_.page_size);
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

KvSnapshot take_snapshot(const KvState& kv) {
  KvSnapshot out;
  out.page_size = kv.page_size;
  out.page_bytes = kv.pool.page_bytes();
  out.pages_total = kv.pool.n_pages();
  out.pages_free = kv.pool.n_free();
  out.pages_hot = kv.pool.n_hot();
  out.pages_sealed = kv.pool.n_sealed();
  out.arena = kv.pool.data(PageId(0));
  for (const KvLayerSpec& layer : kv.config.layers) out.windows.push_back(layer.window);
  out.pages.assign(kv.pool.touched_pages().begin(), kv.pool.touched_pages().end());
  out.free_list.assign(kv.pool.free_list().begin(), kv.pool.free_list().end());
  for (const auto& [id, sequence] : kv.sequences) {
    SequenceSnapshot& copy = out.sequences.emplace_back();
    copy.id = id.value;
    copy.length = sequence.length;
    copy.pending = sequence.pending.n_tokens;
    for (const PageTable& table : sequence.tables) {
      TableSnapshot& pages = copy.tables.emplace_back();
      pages.first_page = table.first_page();
      pages.pages.assign(table.ids().begin(), table.ids().end());
      pages.addresses.assign(table.addresses().begin(), table.addresses().end());
    }
    for (const TailChange& change : sequence.pending.tails)
      copy.tables[change.layer].held = change.held;
  }
  out.reservation_alive = kv.live != nullptr;
  if (kv.live != nullptr)
    for (const SequenceId id : kv.live->sequences) out.reserved_sequences.push_back(id.value);
  return out;
}

Status check_invariants(const KvSnapshot& kv) { return Checker(kv).run(); }

}  // namespace quire
