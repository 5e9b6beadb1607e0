#include "kv/prefix_sharing.h"

#include <algorithm>
#include <optional>

#include "kv/kv_arithmetic.h"

namespace quire {
namespace {

/// Page indices that a sequence of n_tokens keeps in one layer. Where its next token sees nothing
/// of what is there (a window of one), none.
struct PageRange {
  std::size_t first = 0;
  std::size_t end = 0;
};

PageRange visible_pages(const KvState& kv, std::size_t layer, std::size_t n_tokens) {
  const std::size_t visible = first_visible_position(n_tokens, kv.config.layers[layer].window);
  const std::size_t first = visible / kv.page_size;
  return {first, visible == n_tokens ? first : pages_for(n_tokens, kv.page_size)};
}

/// The blocks that the tokens agree with, whether their pages are there or not.
FoundPrefix follow(const KvState& kv, BlockId root, std::span<const TokenId> tokens,
                   PrefixEnd end) {
  const PrefixIndex& index = kv.blocks.index();
  FoundPrefix found;
  BlockId parent = root;
  while (tokens.size() - found.n_tokens >= kv.page_size) {
    const auto child = index.find(parent, tokens.subspan(found.n_tokens, kv.page_size));
    if (!child) break;
    found.blocks.push_back(*child);
    found.n_tokens += kv.page_size;
    parent = *child;
  }
  if (end == PrefixEnd::kWholeBlock || tokens.size() == found.n_tokens) return found;
  const auto rest = tokens.subspan(found.n_tokens);
  const auto common = index.find_common(parent, rest.first(std::min(rest.size(), kv.page_size)));
  if (common) {
    found.blocks.push_back(common->block);
    found.n_tokens += common->n_tokens;
  }
  return found;
}

/// The last block whose page of some layer a hit of n_tokens would need and not find.
std::optional<std::size_t> last_missing(const KvState& kv, const FoundPrefix& found) {
  std::optional<std::size_t> missing;
  for (std::size_t layer = 0; layer < kv.config.layers.size(); ++layer) {
    if (kv.blocks.kind(layer) != LayerKind::kWindow) continue;
    const auto [first, end] = visible_pages(kv, layer, found.n_tokens);
    for (std::size_t i = end; i > std::max(first, missing ? *missing + 1 : 0); --i)
      if (kv.blocks.page(found.blocks[i - 1], layer) == kNoPage) missing = i - 1;
  }
  return missing;
}

void adopt_layer(KvState& kv, SequenceState& sequence, std::size_t layer,
                 const FoundPrefix& found) {
  PageTable& table = sequence.tables[layer];
  const auto [first, end] = visible_pages(kv, layer, found.n_tokens);
  table.restart_at(first);
  for (std::size_t i = first; i < end; ++i) {
    const PageId page = kv.blocks.page(found.blocks[i], layer);
    kv.blocks.acquire_page(page, layer);
    table.push(page, kv.pool);
  }
}

void push_block(KvState& kv, SequencePrefix& prefix, BlockId block) {
  kv.blocks.use(block);
  kv.blocks.need_window(block);
  prefix.chain.push_back(block);
}

/// The sequence's page of one span becomes the block's, or the other way round.
void unite_page(KvState& kv, PageTable& table, std::size_t layer, std::size_t page_index,
                BlockId block) {
  if (kv.blocks.kind(layer) == LayerKind::kNothing) return;
  const PageId own = table.at(page_index);
  const PageId shared = kv.blocks.page(block, layer);
  if (shared == kNoPage) {
    kv.pool.seal(own);
    kv.blocks.give_page(block, layer, own);
    return;
  }
  // Same tokens after the same tokens: every kernel computes the same bits, whatever the batch.
  kv.blocks.acquire_page(shared, layer);
  table.replace(page_index, shared, kv.pool);
  kv.pool.drop_reference(own);
}

}  // namespace

FoundPrefix find_prefix(const KvState& kv, BlockId root, std::span<const TokenId> tokens,
                        std::size_t max_tokens, PrefixEnd end) {
  FoundPrefix found = follow(kv, root, tokens.first(std::min(tokens.size(), max_tokens)), end);
  // Whatever ends within or shortly after a block needs its pages of window layers. Any hit that
  // is longer than up to the missing one needs it too.
  while (const auto missing = last_missing(kv, found)) {
    found.n_tokens = *missing * kv.page_size;
    found.blocks.resize(*missing);
  }
  return found;
}

std::size_t pages_taken_by(const KvState& kv, const FoundPrefix& found) {
  std::size_t n = 0;
  for (std::size_t layer = 0; layer < kv.config.layers.size(); ++layer) {
    const auto [first, end] = visible_pages(kv, layer, found.n_tokens);
    for (std::size_t i = first; i < end; ++i) {
      const PagePool::Page& page = kv.pool.page(kv.blocks.page(found.blocks[i], layer));
      n += page.state == PageState::kCached && !page.pinned;
    }
  }
  return n;
}

std::size_t first_window_page(const KvState& kv, std::size_t length) {
  std::size_t first = pages_for(length, kv.page_size);
  for (std::size_t layer = 0; layer < kv.config.layers.size(); ++layer)
    if (kv.blocks.kind(layer) == LayerKind::kWindow)
      first = std::min(first, visible_pages(kv, layer, length).first);
  return first;
}

void adopt(KvState& kv, SequenceState& sequence, const FoundPrefix& found,
           std::span<const TokenId> tokens) {
  if (found.n_tokens == 0) return;
  for (const BlockId block : found.blocks) {
    push_block(kv, sequence.prefix, block);
    kv.blocks.credit(block, BlockPart::kBody);
  }
  for (std::size_t i = first_window_page(kv, found.n_tokens); i < found.blocks.size(); ++i)
    kv.blocks.credit(found.blocks[i], BlockPart::kWindow);
  for (std::size_t layer = 0; layer < sequence.tables.size(); ++layer)
    adopt_layer(kv, sequence, layer, found);
  sequence.length = found.n_tokens;
  sequence.prefix.tokens.assign(tokens.begin(),
                                tokens.begin() + static_cast<std::ptrdiff_t>(found.n_tokens));
  update_needed(kv, sequence);
}

void publish(KvState& kv, SequenceState& sequence) {
  SequencePrefix& prefix = sequence.prefix;
  const std::size_t n_full = sequence.length / kv.page_size;
  if (prefix.chain.size() == n_full) return;
  for (std::size_t i = prefix.chain.size(); i < n_full; ++i) {
    const auto tokens = std::span(prefix.tokens).subspan(i * kv.page_size, kv.page_size);
    const BlockId parent = i == 0 ? prefix.root : prefix.chain.back();
    const auto known = kv.blocks.index().find(parent, tokens);
    const BlockId block = known ? *known : kv.blocks.add(parent, tokens);
    push_block(kv, prefix, block);
    for (std::size_t layer = 0; layer < sequence.tables.size(); ++layer)
      unite_page(kv, sequence.tables[layer], layer, i, block);
  }
  update_needed(kv, sequence);
}

void fork_chain(KvState& kv, const SequenceState& parent, SequenceState& child) {
  if (!parent.prefix.shares()) return;
  child.prefix.root = parent.prefix.root;
  child.prefix.tokens = parent.prefix.tokens;
  kv.blocks.use(child.prefix.root);
  for (const BlockId block : parent.prefix.chain) push_block(kv, child.prefix, block);
  update_needed(kv, child);
}

void shorten_chain(KvState& kv, SequenceState& sequence, std::size_t n) {
  std::vector<BlockId>& chain = sequence.prefix.chain;
  while (chain.size() > n) {
    if (chain.size() > sequence.prefix.first_needed) kv.blocks.unneed_window(chain.back());
    kv.blocks.unuse(chain.back());
    chain.pop_back();
  }
  sequence.prefix.first_needed = std::min(sequence.prefix.first_needed, chain.size());
}

void update_needed(KvState& kv, SequenceState& sequence) {
  SequencePrefix& prefix = sequence.prefix;
  const std::size_t whole = sequence.length / kv.page_size * kv.page_size;
  const std::size_t first = first_window_page(kv, whole);
  for (; prefix.first_needed < first; ++prefix.first_needed)
    kv.blocks.unneed_window(prefix.chain[prefix.first_needed]);
  for (; prefix.first_needed > first; --prefix.first_needed)
    kv.blocks.need_window(prefix.chain[prefix.first_needed - 1]);
}

}  // namespace quire
