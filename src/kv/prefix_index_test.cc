#include "kv/prefix_index.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace quire {
namespace {

using Tokens = std::vector<TokenId>;

constexpr std::size_t kPage = 4;

TEST(PrefixIndex, FindsAChildByItsParentAndTokens) {
  PrefixIndex index(kPage, 64);
  const BlockId root = index.open_namespace("a");
  const Tokens first = {1, 2, 3, 4};
  const BlockId block = index.insert(root, first);
  const BlockId child = index.insert(block, first);
  EXPECT_EQ(index.find(root, first), block);
  EXPECT_EQ(index.find(block, first), child);
  EXPECT_EQ(index.find(child, first), std::nullopt);
  EXPECT_EQ(index.find(root, Tokens{1, 2, 3, 5}), std::nullopt);
  EXPECT_EQ(index.page_index(block), 0u);
  EXPECT_EQ(index.page_index(child), 1u);
  EXPECT_EQ(index.parent(child), block);
  EXPECT_EQ(index.n_blocks(), 2u);
}

TEST(PrefixIndex, NamespacesAreExactAndForgotten) {
  PrefixIndex index(kPage, 1);
  const std::string with_zero("a\0b", 3);
  const BlockId a = index.open_namespace("a");
  const BlockId b = index.open_namespace(with_zero);
  EXPECT_NE(a, b);
  EXPECT_EQ(index.open_namespace("a"), a);
  EXPECT_EQ(index.find_namespace("A"), std::nullopt);
  index.insert(a, Tokens{1, 2, 3, 4});
  EXPECT_EQ(index.find(b, Tokens{1, 2, 3, 4}), std::nullopt);
  index.remove(b);
  EXPECT_EQ(index.find_namespace(with_zero), std::nullopt);
  EXPECT_EQ(index.n_namespaces(), 1u);
}

// The pattern that a polynomial hash takes for equal: token[j] += 31, token[j + 1] -= 1 (case B06);
// and names of one bit, where half of all blocks have the same.
TEST(PrefixIndex, CollidingNamesAreMisses) {
  for (const unsigned bits : {1u, 2u, 8u, 64u}) {
    PrefixIndex index(kPage, bits);
    const BlockId root = index.open_namespace("a");
    std::map<std::pair<BlockId, Tokens>, BlockId> known;
    std::vector<BlockId> parents = {root};
    for (TokenId i = 0; i < 200; ++i) {
      const Tokens tokens = {100 + 31 * i, 300 - i, 7, i % 3};
      const BlockId parent = parents[static_cast<std::size_t>(i * 7) % parents.size()];
      EXPECT_EQ(index.find(parent, tokens), std::nullopt);
      const BlockId block = index.insert(parent, tokens);
      known[{parent, tokens}] = block;
      parents.push_back(block);
    }
    for (const BlockId parent : parents)
      for (const auto& [key, block] : known) {
        const auto expected = known.find({parent, key.second});
        EXPECT_EQ(index.find(parent, key.second),
                  expected == known.end() ? std::nullopt : std::optional(expected->second));
      }
  }
}

TEST(PrefixIndex, TheLongestCommonBeginningOfAllChildren) {
  PrefixIndex index(kPage, 64);
  const BlockId root = index.open_namespace("a");
  const std::vector<Tokens> children = {{5, 5, 5, 5}, {1, 2, 3, 4}, {1, 2, 3, 9},
                                        {1, 2, 8, 8}, {1, 9, 0, 0}, {7, 0, 0, 0}};
  for (const Tokens& tokens : children) index.insert(root, tokens);
  const std::vector<Tokens> asked = {{1, 2, 3, 4}, {1, 2, 3, 5}, {1, 2, 9}, {1, 2}, {1, 9, 9, 9},
                                     {1},          {6},          {0},       {7, 0}, {5, 5, 5, 6}};
  for (const Tokens& tokens : asked) {
    std::size_t longest = 0;
    for (const Tokens& child : children) {
      std::size_t n = 0;
      while (n < tokens.size() && child[n] == tokens[n]) ++n;
      longest = std::max(longest, n);
    }
    const auto found = index.find_common(root, tokens);
    ASSERT_EQ(found.has_value(), longest > 0);
    if (!found) continue;
    EXPECT_EQ(found->n_tokens, longest);
    const auto has = index.tokens(found->block);
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(longest),
                           has.begin()));
  }
}

TEST(PrefixIndex, WhatWasRemovedIsNotFoundThoughItsIdIsUsedAgain) {
  PrefixIndex index(kPage, 1);
  const BlockId root = index.open_namespace("a");
  const BlockId gone = index.insert(root, Tokens{1, 2, 3, 4});
  const BlockId stays = index.insert(root, Tokens{1, 2, 3, 5});
  index.remove(gone);
  EXPECT_FALSE(index.exists(gone));
  EXPECT_EQ(index.find(root, Tokens{1, 2, 3, 4}), std::nullopt);
  EXPECT_EQ(index.find(root, Tokens{1, 2, 3, 5}), stays);
  EXPECT_EQ(index.children(root).size(), 1u);
  const BlockId again = index.insert(stays, Tokens{9, 9, 9, 9});
  EXPECT_EQ(again, gone);
  EXPECT_EQ(index.find(root, Tokens{9, 9, 9, 9}), std::nullopt);
  EXPECT_EQ(index.find(stays, Tokens{9, 9, 9, 9}), again);
}

TEST(PrefixIndexDeathTest, WhatHasChildrenStays) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  PrefixIndex index(kPage, 64);
  const BlockId root = index.open_namespace("a");
  const BlockId block = index.insert(root, Tokens{1, 2, 3, 4});
  EXPECT_DEATH(index.remove(root), "check failed");
  EXPECT_DEATH(index.insert(root, Tokens{1, 2, 3, 4}), "check failed");
  index.remove(block);
  index.remove(root);
  EXPECT_EQ(index.n_namespaces(), 0u);
}

}  // namespace
}  // namespace quire
