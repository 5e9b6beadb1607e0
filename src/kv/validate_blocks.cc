// The rules of docs/kv-contract.md about blocks: K11 to K15.

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "kv/kv_arithmetic.h"
#include "kv/validate.h"

namespace quire {
namespace {

/// What the rest of the snapshot says about a block.
struct Expected {
  std::size_t n_children = 0;
  std::uint32_t users = 0;
  std::uint32_t window_needs = 0;
  std::uint32_t body_pins = 0;
  std::uint32_t window_pins = 0;
};

class BlockChecker {
 public:
  explicit BlockChecker(const KvSnapshot& kv) : kv_(kv) {}

  Status run() {
    for (const BlockSnapshot& block : kv_.blocks) blocks_[block.id] = &block;
    for (const BlockSnapshot& block : kv_.blocks) QUIRE_RETURN_IF_ERROR(check_place(block));
    QUIRE_RETURN_IF_ERROR(check_pages());
    for (const SequenceSnapshot& sequence : kv_.sequences)
      QUIRE_RETURN_IF_ERROR(check_chain(sequence));
    QUIRE_RETURN_IF_ERROR(count_pins());
    for (const BlockSnapshot& block : kv_.blocks) {
      QUIRE_RETURN_IF_ERROR(check_counts(block));
      QUIRE_RETURN_IF_ERROR(check_queues(block));
    }
    return check_totals();
  }

 private:
  static bool is_root(const BlockSnapshot& block) { return block.parent == kNoBlock; }
  bool is_window(std::size_t layer) const { return kv_.windows[layer] > 1; }

  Status check_place(const BlockSnapshot& block) {
    if (is_root(block)) return {};
    const auto parent = blocks_.find(block.parent);
    if (parent == blocks_.end())
      return broken(11, "the parent of block {} does not exist", block.id.value);
    ++expected_[block.parent].n_children;
    const std::size_t index = is_root(*parent->second) ? 0 : parent->second->page_index + 1;
    if (block.page_index != index)
      return broken(11, "block {} has page index {} below one that makes it {}", block.id.value,
                    block.page_index, index);
    if (block.tokens.size() != kv_.page_size || block.found_as != block.id)
      return broken(11, "block {} of {} tokens is not what is found for them", block.id.value,
                    block.tokens.size());
    return {};
  }

  Status check_pages() const {
    std::vector<BlockId> owner(kv_.pages.size(), kNoBlock);
    for (const BlockSnapshot& block : kv_.blocks) {
      if (is_root(block)) continue;
      for (std::size_t layer = 0; layer < kv_.windows.size(); ++layer) {
        const PageId page = block.pages[layer];
        if (kv_.windows[layer] == (page == kNoPage ? 0u : 1u))
          return broken(12, "block {} has {} page in layer {} of window {}", block.id.value,
                        page == kNoPage ? "no" : "a", layer, kv_.windows[layer]);
        if (page != kNoPage) owner[page.value] = block.id;
      }
    }
    for (std::size_t i = 0; i < kv_.pages.size(); ++i) {
      const PagePool::Page& page = kv_.pages[i];
      if (page.block != owner[i])
        return broken(12, "page {} takes itself for a page of another block than has it", i);
      const bool cached = page.block != kNoBlock && page.references == 1;
      if (cached != (page.state == PageState::kCached))
        return broken(12, "page {} is {} with {} references", i, page_state_name(page.state),
                      page.references);
      if (page.block != kNoBlock && page.state == PageState::kHot)
        return broken(12, "page {} of block {} is hot", i, page.block.value);
    }
    return {};
  }

  Status check_chain(const SequenceSnapshot& sequence) {
    if (sequence.root == kNoBlock) {
      if (!sequence.chain.empty() || !sequence.tokens.empty())
        return broken(13, "sequence {} shares nothing, but has blocks or tokens", sequence.id);
      return {};
    }
    const auto root = blocks_.find(sequence.root);
    if (root == blocks_.end() || !is_root(*root->second))
      return broken(13, "the namespace of sequence {} does not exist", sequence.id);
    ++expected_[sequence.root].users;
    if (sequence.tokens.size() != sequence.length + sequence.pending)
      return broken(13, "sequence {} knows {} tokens, but has {} and {} reserved", sequence.id,
                    sequence.tokens.size(), sequence.length, sequence.pending);
    const std::size_t full = sequence.length / kv_.page_size;
    const std::size_t n = sequence.chain.size();
    if (n != full && (n != full + 1 || sequence.length % kv_.page_size == 0))
      return broken(13, "sequence {} of {} tokens has a chain of {} blocks", sequence.id,
                    sequence.length, n);
    for (std::size_t i = 0; i < n; ++i) QUIRE_RETURN_IF_ERROR(check_link(sequence, i));
    return count_needs(sequence, full);
  }

  Status check_link(const SequenceSnapshot& sequence, std::size_t i) {
    const auto found = blocks_.find(sequence.chain[i]);
    if (found == blocks_.end() ||
        found->second->parent != (i == 0 ? sequence.root : sequence.chain[i - 1]))
      return broken(13, "block {} of sequence {} is not below the one before", i, sequence.id);
    const BlockSnapshot& block = *found->second;
    ++expected_[block.id].users;
    const std::size_t begin = i * kv_.page_size;
    const std::size_t n = std::min(kv_.page_size, sequence.length - begin);
    if (!std::equal(block.tokens.begin(), block.tokens.begin() + static_cast<std::ptrdiff_t>(n),
                    sequence.tokens.begin() + static_cast<std::ptrdiff_t>(begin)))
      return broken(13, "block {} of sequence {} has other tokens", i, sequence.id);
    for (std::size_t layer = 0; layer < kv_.windows.size(); ++layer) {
      const TableSnapshot& table = sequence.tables[layer];
      if (i < table.first_page || i - table.first_page >= table.pages.size()) continue;
      // While a reservation writes to its copy, the page taken in part is held.
      const bool copied = table.held && i == sequence.length / kv_.page_size;
      const PageId page = copied ? *table.held : table.pages[i - table.first_page];
      if (kv_.windows[layer] != 1 && page != block.pages[layer])
        return broken(13, "page {} of sequence {} layer {} is not that of its block", i,
                      sequence.id, layer);
    }
    return {};
  }

  /// A hit of all whole blocks needs what the most far-sighted window layer sees from there.
  Status count_needs(const SequenceSnapshot& sequence, std::size_t n_full) {
    std::size_t first = n_full;
    for (const std::size_t window : kv_.windows)
      if (window > 1)
        first =
            std::min(first, first_visible_position(n_full * kv_.page_size, window) / kv_.page_size);
    if (sequence.first_needed != first)
      return broken(14, "sequence {} needs pages of window layers from page {} on, not {}",
                    sequence.id, first, sequence.first_needed);
    for (std::size_t i = first; i < sequence.chain.size(); ++i)
      ++expected_[sequence.chain[i]].window_needs;
    return {};
  }

  Status count_pins() {
    for (const PinSnapshot& pin : kv_.pins) {
      auto found = blocks_.find(pin.last);
      if (found == blocks_.end() || is_root(*found->second))
        return broken(14, "a pin keeps block {}, which does not exist", pin.last.value);
      for (; !is_root(*found->second); found = blocks_.find(found->second->parent)) {
        ++expected_[found->first].body_pins;
        if (found->second->page_index >= pin.first_window_page)
          ++expected_[found->first].window_pins;
      }
    }
    return {};
  }

  Status check_counts(const BlockSnapshot& block) const {
    const Expected expected = of(block);
    if (block.users != expected.users)
      return broken(14, "block {} counts {} users, {} exist", block.id.value, block.users,
                    expected.users);
    if (block.body_pins != expected.body_pins || block.window_pins != expected.window_pins)
      return broken(14, "block {} counts {} and {} pins, {} and {} exist", block.id.value,
                    block.body_pins, block.window_pins, expected.body_pins, expected.window_pins);
    if (block.window_needs != expected.window_needs)
      return broken(14, "block {} counts {} that need its pages of window layers, {} do",
                    block.id.value, block.window_needs, expected.window_needs);
    for (std::size_t layer = 0; layer < block.pages.size(); ++layer) {
      if (block.pages[layer] == kNoPage) continue;
      const bool pinned = (is_window(layer) ? block.window_pins : block.body_pins) > 0;
      if (kv_.pages[block.pages[layer].value].pinned != pinned)
        return broken(14, "page {} of block {} is {}pinned", block.pages[layer].value,
                      block.id.value, pinned ? "not " : "");
    }
    return {};
  }

  Status check_queues(const BlockSnapshot& block) const {
    const bool free_leaf = block.users == 0 && block.body_pins == 0 && of(block).n_children == 0;
    if (is_root(block) && free_leaf)
      return broken(15, "a namespace exists without blocks and sequences");
    if (block.body_queued != (free_leaf && !is_root(block)))
      return broken(15, "block {} can {}be reclaimed and is {}queued", block.id.value,
                    free_leaf ? "" : "not ", block.body_queued ? "" : "not ");
    bool window_cached = false;
    bool has_pages = false;
    for (std::size_t layer = 0; layer < block.pages.size(); ++layer) {
      const PageId page = block.pages[layer];
      if (free_leaf && page == kNoPage && kv_.windows[layer] != 1)
        return broken(15, "block {} can be part of no hit, but is kept", block.id.value);
      has_pages |= page != kNoPage;
      window_cached |=
          is_window(layer) && page != kNoPage && kv_.pages[page.value].state == PageState::kCached;
    }
    if (free_leaf && !has_pages)
      return broken(15, "block {} has no pages and no use, but is kept", block.id.value);
    if (block.window_queued != (window_cached && block.window_pins == 0))
      return broken(15, "pages of window layers of block {} are {}queued", block.id.value,
                    block.window_queued ? "" : "not ");
    return {};
  }

  Status check_totals() const {
    std::size_t queued = 0;
    std::size_t pinned = 0;
    const auto n_window = static_cast<std::size_t>(
        std::count_if(kv_.windows.begin(), kv_.windows.end(), [](auto w) { return w > 1; }));
    const auto n_whole = static_cast<std::size_t>(
        std::count(kv_.windows.begin(), kv_.windows.end(), std::size_t{0}));
    for (const BlockSnapshot& block : kv_.blocks) {
      queued += std::size_t{block.body_queued} + std::size_t{block.window_queued};
      pinned += (block.body_pins > 0 ? n_whole : 0) + (block.window_pins > 0 ? n_window : 0);
    }
    if (queued != kv_.n_queued)
      return broken(15, "the queue has {} parts of blocks, {} say so", kv_.n_queued, queued);
    if (pinned != kv_.pages_pinned || pinned > kv_.pages_total / 2)
      return broken(14, "{} pages of {} are counted as pinned, {} are", kv_.pages_pinned,
                    kv_.pages_total, pinned);
    return {};
  }

  Expected of(const BlockSnapshot& block) const {
    const auto found = expected_.find(block.id);
    return found == expected_.end() ? Expected() : found->second;
  }

  const KvSnapshot& kv_;
  std::unordered_map<BlockId, const BlockSnapshot*> blocks_;
  std::unordered_map<BlockId, Expected> expected_;
};

}  // namespace

Status check_blocks(const KvSnapshot& kv) { return BlockChecker(kv).run(); }

}  // namespace quire
