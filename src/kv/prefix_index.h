#pragma once
// Which blocks exist: a tree of token spans below the root of each namespace. It knows tokens and
// names, neither pages nor who uses them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/salted_hash.h"
#include "kv/page_pool.h"

namespace quire {

/// A block that begins like the tokens asked for.
struct CommonBeginning {
  BlockId block;
  std::size_t n_tokens = 0;  // that are the same, at least one
};

/// Finds blocks by (namespace, parent, token ids). The root of a namespace is the parent of its
/// first blocks, so that comparing parents compares namespaces too. The name of a block chains its
/// parent's name and its tokens under a salt of this process; it only says where to look. What is
/// found is compared, so that blocks whose names collide are never taken for each other.
class PrefixIndex {
 public:
  /// Names have `name_bits` bits, 1 to 64; tests take few, so that they collide.
  PrefixIndex(std::size_t page_size, unsigned name_bits);

  /// The root of a namespace, made if there is none.
  BlockId open_namespace(std::string_view name);
  std::optional<BlockId> find_namespace(std::string_view name) const;

  /// The child of `parent` with exactly these page_size tokens.
  std::optional<BlockId> find(BlockId parent, std::span<const TokenId> wanted) const;
  /// The child of `parent` that has the most leading tokens in common with `wanted`, if any has.
  std::optional<CommonBeginning> find_common(BlockId parent, std::span<const TokenId> wanted) const;

  /// A new child of `parent`; there must be none with these tokens.
  BlockId insert(BlockId parent, std::span<const TokenId> tokens);
  /// Of a block or the root of a namespace, without children. The id may be used again.
  void remove(BlockId id);

  bool exists(BlockId id) const { return id.value < nodes_.size() && nodes_[id.value].exists; }
  bool is_root(BlockId id) const { return node(id).parent == kNoBlock; }
  BlockId parent(BlockId id) const { return node(id).parent; }
  std::size_t page_index(BlockId id) const { return node(id).page_index; }  // not of a root
  std::span<const TokenId> tokens(BlockId id) const {
    return std::span(tokens_).subspan(id.value * page_size_, page_size_);
  }
  std::span<const BlockId> children(BlockId id) const { return node(id).children; }

  std::size_t n_blocks() const { return n_blocks_; }  // roots not counted
  std::size_t n_namespaces() const { return namespaces_.size(); }
  /// One more than the largest id that exists or did.
  std::size_t id_limit() const { return nodes_.size(); }

 private:
  struct Node {
    bool exists = false;
    std::uint32_t page_index = 0;
    BlockId parent = kNoBlock;
    std::uint64_t name = 0;
    std::vector<BlockId> children;                // in order of their tokens
    const std::string* namespace_name = nullptr;  // of a root: its key
  };

  const Node& node(BlockId id) const { return nodes_[id.value]; }
  BlockId take_id();
  std::uint64_t name_of(BlockId parent, std::span<const TokenId> tokens) const;
  /// The first of the children whose tokens are not less than these.
  std::size_t lower_bound(const Node& parent, std::span<const TokenId> wanted) const;

  std::size_t page_size_;
  unsigned name_bits_;
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;  // [id_limit, page_size]
  std::vector<BlockId> free_ids_;
  std::unordered_map<std::string, BlockId, SaltedHash, std::equal_to<>> namespaces_;
  std::unordered_multimap<std::uint64_t, BlockId> by_name_;
  std::uint64_t next_namespace_ = 0;
  std::size_t n_blocks_ = 0;
};

}  // namespace quire
