// A copy of the whole state, for the validator.

#include "kv/kv_state.h"
#include "kv/validate.h"

namespace quire {
namespace {

SequenceSnapshot snapshot_of(SequenceId id, const SequenceState& sequence) {
  SequenceSnapshot copy;
  copy.id = id.value;
  copy.root = sequence.prefix.root;
  copy.chain = sequence.prefix.chain;
  copy.first_needed = sequence.prefix.first_needed;
  copy.tokens = sequence.prefix.tokens;
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
  return copy;
}

BlockSnapshot snapshot_of(const KvState& kv, BlockId id) {
  const PrefixIndex& index = kv.blocks.index();
  const BlockStore::Block& block = kv.blocks.block(id);
  BlockSnapshot copy;
  copy.id = id;
  copy.users = block.users;
  copy.body_pins = block.parts[0].pins;
  copy.window_pins = block.parts[1].pins;
  copy.window_needs = block.window_needs;
  copy.body_queued = block.parts[0].queued;
  copy.window_queued = block.parts[1].queued;
  if (index.is_root(id)) return copy;
  copy.parent = index.parent(id);
  copy.page_index = index.page_index(id);
  copy.tokens.assign(index.tokens(id).begin(), index.tokens(id).end());
  for (std::size_t layer = 0; layer < kv.config.layers.size(); ++layer)
    copy.pages.push_back(kv.blocks.page(id, layer));
  if (index.exists(copy.parent))
    copy.found_as = index.find(copy.parent, copy.tokens).value_or(kNoBlock);
  return copy;
}

}  // namespace

KvSnapshot take_snapshot(const KvState& kv) {
  KvSnapshot out;
  out.page_size = kv.page_size;
  out.page_bytes = kv.pool.page_bytes();
  out.pages_total = kv.pool.n_pages();
  out.pages_free = kv.pool.n_free();
  out.pages_hot = kv.pool.n_hot();
  out.pages_sealed = kv.pool.n_sealed();
  out.pages_cached = kv.pool.n_cached();
  out.pages_cached_pinned = kv.pool.n_cached_pinned();
  out.pages_pinned = kv.blocks.pages_pinned();
  out.n_queued = kv.blocks.queue().size();
  out.arena = kv.pool.data(PageId(0));
  for (const KvLayerSpec& layer : kv.config.layers) out.windows.push_back(layer.window);
  out.pages.assign(kv.pool.touched_pages().begin(), kv.pool.touched_pages().end());
  out.free_list.assign(kv.pool.free_list().begin(), kv.pool.free_list().end());
  for (const auto& [id, sequence] : kv.sequences)
    out.sequences.push_back(snapshot_of(id, sequence));
  for (std::uint32_t i = 0; i < kv.blocks.index().id_limit(); ++i)
    if (kv.blocks.index().exists(BlockId(i))) out.blocks.push_back(snapshot_of(kv, BlockId(i)));
  for (const auto& [id, pin] : kv.blocks.pins())
    out.pins.push_back({pin.last, pin.first_window_page});
  out.reservation_alive = kv.live != nullptr;
  if (kv.live != nullptr)
    for (const SequenceId id : kv.live->sequences) out.reserved_sequences.push_back(id.value);
  return out;
}

}  // namespace quire
