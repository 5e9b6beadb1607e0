#pragma once
// A fixture for tests of cached prefixes, with texts whose slots hold their tokens.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kv/kv_manager.h"
#include "kv/kv_test_util.h"

namespace quire::testing {

using Tokens = std::vector<TokenId>;

/// n tokens; another `text` has others from the first on.
inline Tokens text_of(std::size_t n, TokenId text) {
  Tokens tokens(n);
  for (std::size_t i = 0; i < n; ++i) tokens[i] = text * 10000 + static_cast<TokenId>(i);
  return tokens;
}

inline Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class PrefixCacheTest : public ::testing::Test {
 protected:
  void make(const std::vector<std::size_t>& windows, std::size_t n_pages) {
    kv_ = std::make_unique<KvManager>(KvManager::create(small_config(windows, n_pages)).value());
  }

  /// Slots hold their token as tag.
  Status append(SequenceId sequence, const Tokens& tokens) {
    const SlotRequest request{sequence, tokens};
    auto reservation = kv_->reserve({&request, 1});
    if (!reservation) return fail(reservation.error());
    for (std::size_t i = 0; i < tokens.size(); ++i)
      write_slot(*kv_, sequence, kv_->length(sequence) + i, static_cast<std::uint32_t>(tokens[i]));
    reservation->commit();
    EXPECT_TRUE(kv_->validate()) << kv_->validate().error().message;
    return {};
  }

  void expect_has(SequenceId sequence, const Tokens& tokens, std::size_t layer,
                  std::size_t from = 0) {
    for (std::size_t i = from; i < tokens.size(); ++i)
      EXPECT_TRUE(slot_has(*kv_, sequence, layer, i, static_cast<std::uint32_t>(tokens[i]))) << i;
  }

  /// Computes a text and ends.
  void run(const Tokens& tokens, const std::string& name_space = "a") {
    const SequenceId sequence = kv_->add_sequence(name_space);
    const std::size_t had = kv_->adopt_prefix(sequence, tokens, tokens.size());
    const Tokens rest(tokens.begin() + static_cast<std::ptrdiff_t>(had), tokens.end());
    const Status done = append(sequence, rest);
    EXPECT_TRUE(done) << done.error().message;
    kv_->release(sequence);
    EXPECT_TRUE(kv_->validate()) << kv_->validate().error().message;
  }

  std::size_t found(const Tokens& tokens, const std::string& name_space = "a") const {
    return kv_->match_prefix(name_space, tokens, tokens.size()).n_tokens;
  }

  std::unique_ptr<KvManager> kv_;
};

}  // namespace quire::testing
