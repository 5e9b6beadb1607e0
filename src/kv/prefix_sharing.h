#pragma once
// What sequences do with the prefix index: look for a prefix, take it, publish what they computed.
// Only src/kv includes this.

#include <cstddef>
#include <span>
#include <vector>

#include "kv/kv_state.h"

namespace quire {

/// A prefix that a sequence could take: every page that its next token would see is there.
struct FoundPrefix {
  std::size_t n_tokens = 0;
  std::vector<BlockId> blocks;  // the last one in part, if n_tokens is within it
};

enum class PrefixEnd {
  kAnywhere,    // the last block may be used in part
  kWholeBlock,  // n_tokens is a multiple of the page size
};

/// The longest prefix of the first max_tokens of `tokens` below the root of a namespace.
FoundPrefix find_prefix(const KvState& kv, BlockId root, std::span<const TokenId> tokens,
                        std::size_t max_tokens, PrefixEnd end);

/// Pages that taking the prefix makes no longer reclaimable.
std::size_t pages_taken_by(const KvState& kv, const FoundPrefix& found);

/// Makes the found prefix the beginning of an empty sequence in the same namespace.
void adopt(KvState& kv, SequenceState& sequence, const FoundPrefix& found,
           std::span<const TokenId> tokens);

/// Makes every full span behind the chain of the sequence a block, or finds the equal block and
/// puts its pages into the tables. All of these spans' pages must still be there.
void publish(KvState& kv, SequenceState& sequence);

/// Gives a fork, which has no chain yet, that of its parent.
void fork_chain(KvState& kv, const SequenceState& parent, SequenceState& child);

/// Gives the blocks at the end of the chain back until n are left.
void shorten_chain(KvState& kv, SequenceState& sequence, std::size_t n);

/// To be called when the length has changed, after the chain.
void update_needed(KvState& kv, SequenceState& sequence);

/// Where the last of `windows` starts to be seen after `length` tokens: the first page index that a
/// hit of that length needs of any window layer.
std::size_t first_window_page(const KvState& kv, std::size_t length);

}  // namespace quire
