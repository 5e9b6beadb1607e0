// Taking room for a step: count first, then take, so that a refusal changes nothing.

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/bytes.h"
#include "kv/kv_arithmetic.h"
#include "kv/kv_state.h"
#include "kv/prefix_sharing.h"

namespace quire {
namespace {

enum class TailAction {
  kNone,    // starts on a page boundary, or the tail is hot and ours alone
  kReopen,  // the tail is sealed (after a truncation) but ours alone
  kCopy,    // someone else reads the tail
};

/// What one table has to get.
struct TableNeed {
  SequenceState* sequence = nullptr;
  std::size_t layer = 0;
  TailAction tail = TailAction::kNone;
  std::size_t n_new = 0;

  std::size_t pages() const { return n_new + (tail == TailAction::kCopy ? 1 : 0); }
};

struct Writer {
  SequenceState* sequence = nullptr;
  SequenceId id;
  std::span<const TokenId> tokens;
};

/// The writers that share one partly filled tail page.
struct TailSharers {
  std::uint32_t count = 0;
  const SequenceState* longest = nullptr;
};
using SharedTails = std::unordered_map<PageId, TailSharers>;

Result<std::vector<Writer>> find_writers(KvState& kv, std::span<const SlotRequest> requests) {
  std::vector<Writer> writers;
  writers.reserve(requests.size());
  for (const SlotRequest& request : requests) {
    SequenceState* sequence = kv.find(request.sequence);
    if (sequence == nullptr)
      return fail(ErrorCode::kNotFound, "there is no KV sequence {}", request.sequence.value);
    if (request.tokens.size() > kMaxSequenceLength - sequence->length)
      return fail(ErrorCode::kInvalidArgument,
                  "sequence {} holds {} tokens and cannot take {} more: the limit is {}",
                  request.sequence.value, sequence->length, request.tokens.size(),
                  kMaxSequenceLength);
    writers.push_back({sequence, request.sequence, request.tokens});
  }
  std::vector<SequenceId> ids;
  ids.reserve(writers.size());
  for (const Writer& writer : writers) ids.push_back(writer.id);
  std::sort(ids.begin(), ids.end());
  if (const auto twice = std::adjacent_find(ids.begin(), ids.end()); twice != ids.end())
    return fail(ErrorCode::kInvalidArgument, "sequence {} occurs twice in one KV reservation",
                twice->value);
  std::erase_if(writers, [](const Writer& writer) { return writer.tokens.empty(); });
  return writers;
}

/// Whether the first new token of the sequence goes into a page that exists.
bool continues_tail(const SequenceState& sequence, const PageTable& table, std::size_t page_size) {
  return sequence.length % page_size != 0 && !table.empty();
}

SharedTails find_shared_tails(const KvState& kv, std::span<const Writer> writers) {
  SharedTails tails;
  for (const Writer& writer : writers) {
    for (const PageTable& table : writer.sequence->tables) {
      if (!continues_tail(*writer.sequence, table, kv.page_size)) continue;
      if (kv.pool.page(table.tail()).references == 1) continue;
      TailSharers& sharers = tails[table.tail()];
      ++sharers.count;
      if (sharers.longest == nullptr || writer.sequence->length > sharers.longest->length)
        sharers.longest = writer.sequence;
    }
  }
  return tails;
}

TailAction tail_action(const KvState& kv, const SharedTails& shared, const SequenceState& sequence,
                       const PageTable& table) {
  if (!continues_tail(sequence, table, kv.page_size)) return TailAction::kNone;
  const PagePool::Page& page = kv.pool.page(table.tail());
  if (page.references > 1) {
    // When everyone who reads the page writes in this reservation, all but one move away and the
    // last may stay. It is the longest: it writes past what any of the others can see, so that
    // they can come back to the page if the reservation is dropped.
    const TailSharers& sharers = shared.at(table.tail());
    if (sharers.count != page.references || sharers.longest != &sequence) return TailAction::kCopy;
  }
  return page.state == PageState::kSealed ? TailAction::kReopen : TailAction::kNone;
}

std::vector<TableNeed> plan_needs(const KvState& kv, std::span<const Writer> writers) {
  const SharedTails shared = find_shared_tails(kv, writers);
  std::vector<TableNeed> needs;
  for (const Writer& writer : writers) {
    const std::size_t end = pages_for(writer.sequence->length + writer.tokens.size(), kv.page_size);
    for (std::size_t layer = 0; layer < writer.sequence->tables.size(); ++layer) {
      const PageTable& table = writer.sequence->tables[layer];
      const TableNeed need{writer.sequence, layer, tail_action(kv, shared, *writer.sequence, table),
                           end - table.end_page()};
      if (need.tail != TailAction::kNone || need.n_new > 0) needs.push_back(need);
    }
  }
  return needs;
}

void copy_tail(KvState& kv, SequenceState& sequence, std::size_t layer) {
  PageTable& table = sequence.tables[layer];
  const PageId copy = kv.pool.take();
  std::memcpy(kv.pool.data(copy), kv.pool.data(table.tail()),
              kv.config.layers[layer].layout.page_bytes());
  const PageId held = table.replace_tail(copy, kv.pool);
  sequence.pending.tails.push_back({layer, held, false});
}

void take_pages(KvState& kv, const TableNeed& need) {
  PageTable& table = need.sequence->tables[need.layer];
  if (need.tail == TailAction::kCopy) copy_tail(kv, *need.sequence, need.layer);
  if (need.tail == TailAction::kReopen) {
    kv.pool.reopen(table.tail());
    need.sequence->pending.tails.push_back({need.layer, std::nullopt, true});
  }
  for (std::size_t i = 0; i < need.n_new; ++i) table.push(kv.pool.take(), kv.pool);
}

}  // namespace

Result<std::vector<SequenceId>> take_slots(KvState& kv, std::span<const SlotRequest> requests) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Writer> writers, find_writers(kv, requests));
  const std::vector<TableNeed> needs = plan_needs(kv, writers);

  std::uint64_t needed = 0;
  for (const TableNeed& need : needs) needed += need.pages();
  const std::uint64_t page_bytes = kv.pool.page_bytes();
  const std::uint64_t available = kv.pool.n_free() + kv.blocks.n_reclaimable();
  if (needed > available)
    return fail(ErrorCode::kOutOfMemory,
                "the KV cache is full: {} pages ({}) are needed, {} of {} ({} of {}) are free; "
                "end other sequences, shorten the text or raise --kv-memory",
                needed, format_byte_size(needed * page_bytes), available, kv.pool.n_pages(),
                format_byte_size(available * page_bytes),
                format_byte_size(kv.pool.n_pages() * page_bytes));
  kv.blocks.reclaim(needed);
  QUIRE_CHECK(kv.pool.n_free() >= needed);

  std::vector<SequenceId> ids;
  ids.reserve(writers.size());
  for (const Writer& writer : writers) {
    PendingSlots& pending = writer.sequence->pending;
    pending.n_tokens = writer.tokens.size();
    for (const PageTable& table : writer.sequence->tables)
      pending.pages_before.push_back(table.size());
    std::vector<TokenId>& known = writer.sequence->prefix.tokens;
    if (writer.sequence->prefix.shares())
      known.insert(known.end(), writer.tokens.begin(), writer.tokens.end());
    ids.push_back(writer.id);
  }
  for (const TableNeed& need : needs) take_pages(kv, need);
  return ids;
}

namespace {

/// Drops the pages of one table that the next token does not see.
void drop_invisible_pages(KvState& kv, SequenceState& sequence, std::size_t layer) {
  PageTable& table = sequence.tables[layer];
  const std::size_t visible =
      first_visible_position(sequence.length, kv.config.layers[layer].window);
  const std::size_t n = std::min(visible / kv.page_size - table.first_page(), table.size());
  for (const PageId page : table.ids().first(n)) kv.blocks.drop_page(page, layer);
  table.drop_front(n);
}

void clear_pending(SequenceState& sequence) {
  sequence.pending.n_tokens = 0;
  sequence.pending.pages_before.clear();
  sequence.pending.tails.clear();
  if (sequence.prefix.shares()) sequence.prefix.tokens.resize(sequence.length);
}

}  // namespace

void commit_slots(KvState& kv, SequenceState& sequence, std::size_t n_tokens) {
  PendingSlots& pending = sequence.pending;
  QUIRE_CHECK(n_tokens > 0 && n_tokens <= pending.n_tokens);
  for (const TailChange& change : pending.tails)
    if (change.held) kv.blocks.drop_page(*change.held, change.layer);

  const std::size_t first_written = sequence.length / kv.page_size;
  shorten_chain(kv, sequence, first_written);  // by the block whose tail was copied
  sequence.length += n_tokens;
  const std::size_t first_not_full = sequence.length / kv.page_size;
  // Before windows move on: they follow what is committed, not what was reserved.
  for (PageTable& table : sequence.tables)
    while (table.end_page() > pages_for(sequence.length, kv.page_size))
      kv.pool.drop_reference(table.pop());
  // Before windows move on, too: a block keeps what leaves them.
  if (sequence.prefix.shares()) publish(kv, sequence);
  for (std::size_t layer = 0; layer < sequence.tables.size(); ++layer) {
    PageTable& table = sequence.tables[layer];
    drop_invisible_pages(kv, sequence, layer);
    if (sequence.prefix.shares()) continue;  // sealed when published
    for (std::size_t i = std::max(first_written, table.first_page()); i < first_not_full; ++i)
      kv.pool.seal(table.at(i));
  }
  clear_pending(sequence);
}

void return_slots(KvState& kv, SequenceState& sequence) {
  PendingSlots& pending = sequence.pending;
  for (std::size_t layer = 0; layer < sequence.tables.size(); ++layer) {
    PageTable& table = sequence.tables[layer];
    while (table.size() > pending.pages_before[layer]) kv.pool.drop_reference(table.pop());
  }
  for (const TailChange& change : pending.tails) {
    PageTable& table = sequence.tables[change.layer];
    if (change.held) kv.pool.drop_reference(table.replace_tail(*change.held, kv.pool));
    if (change.reopened) kv.pool.seal(table.tail());
  }
  clear_pending(sequence);
}

}  // namespace quire
