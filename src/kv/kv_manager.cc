#include "kv/kv_manager.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "kv/kv_arithmetic.h"
#include "kv/kv_manager_impl.h"
#include "kv/prefix_sharing.h"
#include "kv/validate.h"

namespace quire {

struct Reservation::State : LiveReservation {
  struct Request {
    SequenceId sequence;
    std::size_t n_tokens = 0;
  };
  std::vector<Request> requests;  // as they came
};

// --- Reservation ---------------------------------------------------------------------------------

Reservation::Reservation(std::unique_ptr<State> state) : state_(std::move(state)) {}

Reservation::Reservation(Reservation&&) noexcept = default;

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  // What this one held goes back when `old` dies.
  const Reservation old(std::exchange(state_, std::move(other.state_)));
  return *this;
}

Reservation::~Reservation() {
  if (state_ == nullptr || state_->kv == nullptr) return;
  KvState& kv = *state_->kv;
  for (const SequenceId id : state_->sequences) return_slots(kv, kv.sequences.at(id));
  kv.live = nullptr;
}

void Reservation::commit() {
  QUIRE_CHECK(state_ != nullptr);  // committed or moved from
  std::vector<std::size_t> all;
  all.reserve(state_->requests.size());
  for (const State::Request& request : state_->requests) all.push_back(request.n_tokens);
  commit(all);
}

void Reservation::commit(std::span<const std::size_t> n_tokens) {
  QUIRE_CHECK(state_ != nullptr);
  QUIRE_CHECK(state_->kv != nullptr);  // the manager is gone
  QUIRE_CHECK(n_tokens.size() == state_->requests.size());
  KvState& kv = *state_->kv;
  for (std::size_t i = 0; i < n_tokens.size(); ++i) {
    QUIRE_CHECK(n_tokens[i] <= state_->requests[i].n_tokens);
    SequenceState* sequence = kv.find(state_->requests[i].sequence);
    if (sequence == nullptr || sequence->pending.n_tokens == 0) continue;  // released, or no tokens
    if (n_tokens[i] == 0)
      return_slots(kv, *sequence);
    else
      commit_slots(kv, *sequence, n_tokens[i]);
  }
  kv.live = nullptr;
  state_.reset();
}

// --- KvManager -----------------------------------------------------------------------------------

KvManager::KvManager(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KvManager::KvManager(KvManager&&) noexcept = default;
KvManager& KvManager::operator=(KvManager&&) noexcept = default;
KvManager::~KvManager() = default;

Result<KvManager> KvManager::create(KvConfig config) {
  QUIRE_RETURN_IF_ERROR(check_kv_config(config));
  const std::uint64_t page_bytes = kv_page_bytes(config);
  const std::uint64_t n_pages = config.budget_bytes / page_bytes;
  const std::size_t n_layers = config.layers.size();
  if (n_pages < n_layers)
    return fail(ErrorCode::kOutOfMemory,
                "the KV memory of {} ({} bytes) is too small: one page of {} tokens in each of {} "
                "layers needs {} ({} bytes); raise --kv-memory",
                format_byte_size(config.budget_bytes), config.budget_bytes,
                config.layers.front().layout.page_size, n_layers,
                format_byte_size(page_bytes * n_layers), page_bytes * n_layers);
  QUIRE_ASSIGN_OR_RETURN(PagePool pool, PagePool::create(page_bytes, n_pages));
  return KvManager(std::make_unique<Impl>(std::move(config), std::move(pool)));
}

SequenceId KvManager::add_sequence() {
  // After four billion sequences the numbers start again; those still in use are passed over.
  while (impl_->find(SequenceId(impl_->next_id)) != nullptr) ++impl_->next_id;
  const SequenceId id(impl_->next_id++);
  impl_->sequences[id].tables.resize(impl_->config.layers.size());
  return id;
}

SequenceId KvManager::add_sequence(std::string_view prefix_namespace) {
  const SequenceId id = add_sequence();
  const BlockId root = impl_->blocks.open_namespace(prefix_namespace);
  impl_->blocks.use(root);
  impl_->find(id)->prefix.root = root;
  return id;
}

Result<SequenceId> KvManager::fork(SequenceId parent) {
  const SequenceState* from = impl_->find(parent);
  if (from == nullptr)
    return fail(ErrorCode::kNotFound, "cannot fork KV sequence {}: there is none", parent.value);
  if (from->pending.n_tokens > 0)
    return fail(ErrorCode::kInvalidArgument,
                "cannot fork KV sequence {} while a reservation writes to it", parent.value);
  const SequenceId id = add_sequence();
  SequenceState& child = *impl_->find(id);  // adding it moved no other sequence
  child.length = from->length;
  child.tables = from->tables;
  for (const PageTable& table : child.tables)
    for (const PageId page : table.ids()) impl_->pool.add_reference(page);
  fork_chain(*impl_, *from, child);
  return id;
}

Result<Reservation> KvManager::reserve(std::span<const SlotRequest> requests) {
  QUIRE_CHECK(impl_->live == nullptr);  // one reservation at a time
  QUIRE_ASSIGN_OR_RETURN(std::vector<SequenceId> sequences, take_slots(*impl_, requests));
  auto state = std::make_unique<Reservation::State>();
  state->kv = impl_.get();
  state->sequences = std::move(sequences);
  state->requests.reserve(requests.size());
  for (const SlotRequest& request : requests)
    state->requests.push_back({request.sequence, request.tokens.size()});
  impl_->live = state.get();
  return Reservation(std::move(state));
}

Status KvManager::truncate(SequenceId sequence, std::size_t length) {
  SequenceState* state = impl_->find(sequence);
  if (state == nullptr)
    return fail(ErrorCode::kNotFound, "cannot truncate KV sequence {}: there is none",
                sequence.value);
  if (state->pending.n_tokens > 0)
    return fail(ErrorCode::kInvalidArgument,
                "cannot truncate KV sequence {} while a reservation writes to it", sequence.value);
  if (length > state->length)
    return fail(ErrorCode::kInvalidArgument,
                "cannot truncate KV sequence {} to {} tokens: it holds only {}", sequence.value,
                length, state->length);
  if (length == state->length) return {};

  const std::size_t page_size = impl_->page_size;
  for (std::size_t layer = 0; layer < state->tables.size(); ++layer) {
    const std::size_t window = impl_->config.layers[layer].window;
    const std::size_t visible = first_visible_position(length, window);
    const std::size_t kept = state->tables[layer].first_page() * page_size;
    if (visible < std::min(kept, length))
      return fail(ErrorCode::kInvalidArgument,
                  "cannot truncate KV sequence {} to {} tokens: layer {} would see the last {} "
                  "positions again, but {} to {} have left its window",
                  sequence.value, length, layer, window, visible, std::min(kept, length) - 1);
  }
  for (std::size_t layer = 0; layer < state->tables.size(); ++layer) {
    PageTable& table = state->tables[layer];
    while (!table.empty() && table.end_page() > pages_for(length, page_size))
      impl_->blocks.drop_page(table.pop(), layer);
    if (table.empty()) table.restart_at(length / page_size);
  }
  shorten_chain(*impl_, *state, pages_for(length, page_size));
  // The tail may be sealed or shared now. The next reservation reopens or copies it, so that
  // going back never needs memory.
  state->length = length;
  if (state->prefix.shares()) {
    state->prefix.tokens.resize(length);
    update_needed(*impl_, *state);
  }
  return {};
}

void KvManager::release(SequenceId sequence) {
  SequenceState* state = impl_->find(sequence);
  if (state == nullptr) return;
  if (state->pending.n_tokens > 0) {
    return_slots(*impl_, *state);
    std::erase(impl_->live->sequences, sequence);
  }
  SequencePrefix& prefix = state->prefix;
  for (std::size_t i = prefix.first_needed; i < prefix.chain.size(); ++i)
    impl_->blocks.credit(prefix.chain[i], BlockPart::kWindow);
  for (std::size_t layer = 0; layer < state->tables.size(); ++layer)
    for (const PageId page : state->tables[layer].ids()) impl_->blocks.drop_page(page, layer);
  shorten_chain(*impl_, *state, 0);
  if (prefix.shares()) impl_->blocks.unuse(prefix.root);
  impl_->sequences.erase(sequence);
}

std::size_t KvManager::length(SequenceId sequence) const {
  const SequenceState* state = impl_->find(sequence);
  QUIRE_CHECK(state != nullptr);
  return state->length;
}

PageTableView KvManager::table(SequenceId sequence, std::size_t layer) const {
  const SequenceState* state = impl_->find(sequence);
  QUIRE_CHECK(state != nullptr);
  QUIRE_CHECK(layer < state->tables.size());
  return state->tables[layer].view();
}

const KvConfig& KvManager::config() const { return impl_->config; }

KvStats KvManager::stats() const {
  const PagePool& pool = impl_->pool;
  KvStats stats;
  stats.page_size = impl_->page_size;
  stats.page_bytes = pool.page_bytes();
  stats.pages_total = pool.n_pages();
  stats.pages_free = pool.n_free();
  stats.pages_hot = pool.n_hot();
  stats.pages_sealed = pool.n_sealed();
  stats.pages_cached = pool.n_cached();
  stats.pages_available = pool.n_free() + impl_->blocks.n_reclaimable();
  stats.pages_pinned = impl_->blocks.pages_pinned();
  stats.prefix_blocks = impl_->blocks.index().n_blocks();
  stats.prefix_namespaces = impl_->blocks.index().n_namespaces();
  stats.prefix_blocks_evicted = impl_->blocks.n_evicted();
  stats.prefix_queries = impl_->prefix_queries;
  stats.prefix_query_tokens = impl_->prefix_query_tokens;
  stats.prefix_hit_tokens = impl_->prefix_hit_tokens;
  stats.bytes_used = static_cast<std::uint64_t>(pool.n_hot() + pool.n_sealed()) * pool.page_bytes();
  return stats;
}

Status KvManager::validate() const { return check_invariants(take_snapshot(*impl_)); }

}  // namespace quire
