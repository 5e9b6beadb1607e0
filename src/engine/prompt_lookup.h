#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/drafter.h"
#include "engine/step_cost.h"

namespace quire {

/// Where each n-gram of a growing text ended last. Takes constant time per token, and at most 16
/// bytes of memory (beside 256 at first).
class NgramIndex {
 public:
  explicit NgramIndex(std::size_t n) : n_(n), slots_(kFirstSlots) {}

  std::size_t n() const { return n_; }
  void clear();

  /// `text` has grown by one token: the n-gram it now ends with was there before, ending at the
  /// position returned.
  std::optional<std::size_t> append(std::span<const TokenId> text);

 private:
  static constexpr std::size_t kFirstSlots = 64;  // a power of two, as is every later number

  std::uint32_t& find(std::span<const TokenId> text, std::size_t end);
  void grow(std::span<const TokenId> text);

  std::size_t n_;
  std::vector<std::uint32_t> slots_;  // linear probing; tokens up to where one ends, 0: empty
  std::size_t n_used_ = 0;
};

struct PromptLookupOptions {
  /// What one more token costs a step, as a share of a step of one token, until steps have shown
  /// it.
  double row_cost = 0.2;
  bool learns_cost = true;  // else that is how it stays
};

/// Prompt lookup decoding (Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding): the text
/// goes on as it did the last time its end occurred. The longest end that occurred counts; when
/// the guess runs into the present it repeats itself.
///
/// How much to guess follows from what guesses were worth: each token that comes is compared with
/// the first token that would have been guessed, guessed or not, so that knowing costs no step.
/// The share of hits is kept apart by the length of the match. What is not worth the time that it
/// takes (StepCost) is not guessed.
class PromptLookup : public Drafter {
 public:
  explicit PromptLookup(PromptLookupOptions options = {});

  void begin(std::span<const TokenId> prompt) override;
  void append(TokenId token) override;
  std::span<const TokenId> draft(std::size_t max_tokens) override;
  void step_took(std::size_t n_tokens, double seconds) override;

  /// Where in the text the next token is guessed from, if anywhere.
  std::optional<std::size_t> source() const { return source_; }
  /// Tokens before it that equal those at the end of the text, counted up to kMaxMatch.
  std::size_t match_length() const { return match_length_; }

  /// Whether a guess was right, of late, when as many tokens matched.
  double hit_rate(std::size_t match_length) const;

  static constexpr std::size_t kMaxMatch = 32;

 private:
  struct HitRate {
    double hits = 0;
    double guesses = 0;
  };
  void add(TokenId token);
  /// The number of tokens that makes a step yield the most for its cost.
  std::size_t best_length(std::size_t max_tokens) const;

  StepCost cost_;  // what begin() does not forget: it is the machine's, not the text's
  bool learns_cost_;
  std::vector<TokenId> text_;
  std::array<NgramIndex, 4> indexes_{NgramIndex(8), NgramIndex(4), NgramIndex(3), NgramIndex(2)};
  std::array<HitRate, 5> rates_;  // by match length
  std::optional<std::size_t> source_;
  std::size_t match_length_ = 0;
  std::vector<TokenId> draft_;
};

}  // namespace quire
