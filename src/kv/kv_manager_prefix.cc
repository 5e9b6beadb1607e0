// The part of KvManager that is about cached prefixes.

#include <algorithm>

#include "base/check.h"
#include "kv/kv_manager_impl.h"
#include "kv/prefix_sharing.h"

namespace quire {

PrefixMatch KvManager::match_prefix(std::string_view prefix_namespace,
                                    std::span<const TokenId> tokens, std::size_t max_tokens) const {
  const auto root = impl_->blocks.index().find_namespace(prefix_namespace);
  if (!root) return {};
  const FoundPrefix found = find_prefix(*impl_, *root, tokens, max_tokens, PrefixEnd::kAnywhere);
  return {found.n_tokens, pages_taken_by(*impl_, found)};
}

std::size_t KvManager::adopt_prefix(SequenceId sequence, std::span<const TokenId> tokens,
                                    std::size_t max_tokens) {
  SequenceState* state = impl_->find(sequence);
  QUIRE_CHECK(state != nullptr);
  QUIRE_CHECK(state->length == 0 && state->pending.n_tokens == 0);
  QUIRE_CHECK(state->prefix.shares());
  const FoundPrefix found =
      find_prefix(*impl_, state->prefix.root, tokens, max_tokens, PrefixEnd::kAnywhere);
  adopt(*impl_, *state, found, tokens);
  ++impl_->prefix_queries;
  impl_->prefix_query_tokens += std::min(tokens.size(), max_tokens);
  impl_->prefix_hit_tokens += found.n_tokens;
  return found.n_tokens;
}

Result<PrefixPin> KvManager::pin_prefix(std::string_view prefix_namespace,
                                        std::span<const TokenId> tokens) {
  FoundPrefix found;
  if (const auto root = impl_->blocks.index().find_namespace(prefix_namespace))
    found = find_prefix(*impl_, *root, tokens, tokens.size(), PrefixEnd::kWholeBlock);
  if (found.n_tokens == 0)
    return fail(ErrorCode::kNotFound,
                "no KV block of {} tokens is cached of this prefix of {} tokens; send it as a "
                "prompt first",
                impl_->page_size, tokens.size());
  QUIRE_ASSIGN_OR_RETURN(
      const PinId id,
      impl_->blocks.pin(found.blocks.back(), first_window_page(*impl_, found.n_tokens)));
  return PrefixPin{id, found.n_tokens};
}

Status KvManager::unpin(PinId pin) {
  if (impl_->blocks.unpin(pin)) return {};
  return fail(ErrorCode::kNotFound, "there is no pinned KV prefix {}", pin.value);
}

std::size_t KvManager::flush_cache() {
  const std::size_t before = impl_->pool.n_free();
  impl_->blocks.reclaim(impl_->pool.n_pages());
  return impl_->pool.n_free() - before;
}

std::size_t KvManager::own_pages(SequenceId sequence) const {
  const SequenceState* state = impl_->find(sequence);
  QUIRE_CHECK(state != nullptr);
  std::size_t n = 0;
  for (const PageTable& table : state->tables)
    for (const PageId id : table.ids()) {
      const PagePool::Page& page = impl_->pool.page(id);
      n += !page.pinned && page.references == (page.block == kNoBlock ? 1u : 2u);
    }
  return n;
}

bool KvManager::shares_tail(SequenceId sequence) const {
  const SequenceState* state = impl_->find(sequence);
  QUIRE_CHECK(state != nullptr);
  if (state->length % impl_->page_size == 0) return false;
  return std::ranges::any_of(state->tables, [this](const PageTable& table) {
    return !table.empty() && impl_->pool.page(table.tail()).references > 1;
  });
}

}  // namespace quire
