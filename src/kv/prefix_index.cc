#include "kv/prefix_index.h"

#include <algorithm>
#include <random>

#include "base/check.h"

namespace quire {
namespace {

/// Unknown to clients, so that nobody can make prompts whose names collide.
std::uint64_t process_salt() {
  static const std::uint64_t salt = [] {
    std::random_device random;
    return (std::uint64_t{random()} << 32) ^ random();
  }();
  return salt;
}

/// Takes one more number into a hash; the finalizer of SplitMix64 (Steele, Lea and Flood 2014), a
/// bijection in which every bit of the input reaches every bit of the output.
std::uint64_t mix(std::uint64_t hash, std::uint64_t number) {
  std::uint64_t x = hash + 0x9e3779b97f4a7c15u + number;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

PrefixIndex::PrefixIndex(std::size_t page_size, unsigned name_bits)
    : page_size_(page_size), name_bits_(name_bits) {
  QUIRE_CHECK(page_size > 0);
  QUIRE_CHECK(name_bits >= 1 && name_bits <= 64);
}

BlockId PrefixIndex::take_id() {
  BlockId id(static_cast<std::uint32_t>(nodes_.size()));
  if (free_ids_.empty()) {
    QUIRE_CHECK(id != kNoBlock);
    nodes_.emplace_back();
    tokens_.resize(tokens_.size() + page_size_);
  } else {
    id = free_ids_.back();
    free_ids_.pop_back();
  }
  nodes_[id.value].exists = true;
  return id;
}

BlockId PrefixIndex::open_namespace(std::string_view name) {
  if (const auto found = find_namespace(name)) return *found;
  const BlockId id = take_id();
  const auto entry = namespaces_.emplace(std::string(name), id).first;
  Node& root = nodes_[id.value];
  root.parent = kNoBlock;
  root.namespace_name = &entry->first;  // a key never moves while it is in the map
  root.name = mix(process_salt(), next_namespace_++);
  return id;
}

std::optional<BlockId> PrefixIndex::find_namespace(std::string_view name) const {
  const auto found = namespaces_.find(name);
  if (found == namespaces_.end()) return std::nullopt;
  return found->second;
}

std::uint64_t PrefixIndex::name_of(BlockId parent, std::span<const TokenId> tokens) const {
  std::uint64_t name = mix(process_salt(), node(parent).name);
  for (const TokenId token : tokens) name = mix(name, static_cast<std::uint32_t>(token));
  return name >> (64 - name_bits_);
}

std::optional<BlockId> PrefixIndex::find(BlockId parent, std::span<const TokenId> wanted) const {
  QUIRE_CHECK(wanted.size() == page_size_);
  const auto [begin, end] = by_name_.equal_range(name_of(parent, wanted));
  for (auto it = begin; it != end; ++it) {
    const BlockId id = it->second;
    if (node(id).parent == parent && std::ranges::equal(tokens(id), wanted)) return id;
  }
  return std::nullopt;
}

std::size_t PrefixIndex::lower_bound(const Node& parent, std::span<const TokenId> wanted) const {
  const auto less = [this](BlockId child, std::span<const TokenId> than) {
    return std::ranges::lexicographical_compare(tokens(child), than);
  };
  const auto it = std::lower_bound(parent.children.begin(), parent.children.end(), wanted, less);
  return static_cast<std::size_t>(it - parent.children.begin());
}

std::optional<CommonBeginning> PrefixIndex::find_common(BlockId parent,
                                                        std::span<const TokenId> wanted) const {
  // In order of tokens, the most similar ones are on both sides of where `wanted` would be.
  const std::vector<BlockId>& children = node(parent).children;
  const std::size_t at = lower_bound(node(parent), wanted);
  std::optional<CommonBeginning> best;
  for (std::size_t i = at == 0 ? 0 : at - 1; i <= at && i < children.size(); ++i) {
    const auto differ = std::ranges::mismatch(tokens(children[i]), wanted);
    const auto n = static_cast<std::size_t>(differ.in2 - wanted.begin());
    if (n > (best ? best->n_tokens : 0)) best = CommonBeginning{children[i], n};
  }
  return best;
}

BlockId PrefixIndex::insert(BlockId parent, std::span<const TokenId> tokens) {
  QUIRE_CHECK(!find(parent, tokens));
  const BlockId id = take_id();
  std::ranges::copy(tokens, tokens_.begin() + static_cast<std::ptrdiff_t>(id.value * page_size_));
  Node& child = nodes_[id.value];
  Node& above = nodes_[parent.value];
  child.parent = parent;
  child.page_index = is_root(parent) ? 0 : above.page_index + 1;
  child.name = name_of(parent, tokens);
  by_name_.emplace(child.name, id);
  const std::size_t at = lower_bound(above, tokens);
  above.children.insert(above.children.begin() + static_cast<std::ptrdiff_t>(at), id);
  ++n_blocks_;
  return id;
}

void PrefixIndex::remove(BlockId id) {
  QUIRE_CHECK(exists(id) && node(id).children.empty());
  Node& gone = nodes_[id.value];
  if (gone.namespace_name != nullptr) {
    namespaces_.erase(namespaces_.find(*gone.namespace_name));
  } else {
    const auto [begin, end] = by_name_.equal_range(gone.name);
    by_name_.erase(
        std::find_if(begin, end, [id](const auto& entry) { return entry.second == id; }));
    Node& above = nodes_[gone.parent.value];
    const std::size_t at = lower_bound(above, tokens(id));
    QUIRE_CHECK(above.children[at] == id);
    above.children.erase(above.children.begin() + static_cast<std::ptrdiff_t>(at));
    --n_blocks_;
  }
  gone = Node();
  free_ids_.push_back(id);
}

}  // namespace quire
