#include "engine/prompt_lookup.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

/// Match lengths whose hits are counted together: 2, 3, 4 to 7, 8 to 15, 16 and more.
constexpr std::array<std::size_t, 5> kRateFrom = {2, 3, 4, 8, 16};
/// What a hit is believed to be worth at first, as if kFirstGuesses had been seen.
constexpr std::array<double, 5> kFirstRates = {0.3, 0.4, 0.55, 0.75, 0.9};
constexpr double kFirstGuesses = 8;
/// Guesses are forgotten little by little: about this many count.
constexpr double kMemory = 32;

std::size_t rate_of(std::size_t match_length) {
  std::size_t i = 0;
  while (i + 1 < kRateFrom.size() && kRateFrom[i + 1] <= match_length) ++i;
  return i;
}

/// Mixes as the finalizer of MurmurHash3 does.
std::uint64_t mixed(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdu;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53u;
  return x ^ (x >> 33);
}

}  // namespace

// --- NgramIndex ----------------------------------------------------------------------------------

void NgramIndex::clear() {
  slots_.assign(kFirstSlots, 0);
  n_used_ = 0;
}

std::uint32_t& NgramIndex::find(std::span<const TokenId> text, std::size_t end) {
  const auto ngram = text.subspan(end - n_, n_);
  std::uint64_t hash = 0;
  for (const TokenId token : ngram) hash = mixed(hash ^ static_cast<std::uint32_t>(token));
  for (std::size_t i = hash & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
    if (slots_[i] == 0) return slots_[i];
    const auto other = text.subspan(slots_[i] - n_, n_);
    if (std::equal(ngram.begin(), ngram.end(), other.begin())) return slots_[i];
  }
}

void NgramIndex::grow(std::span<const TokenId> text) {
  const std::vector<std::uint32_t> old =
      std::exchange(slots_, std::vector<std::uint32_t>(2 * slots_.size()));
  for (const std::uint32_t end : old)
    if (end != 0) find(text, end) = end;
}

std::optional<std::size_t> NgramIndex::append(std::span<const TokenId> text) {
  if (text.size() < n_) return std::nullopt;
  std::uint32_t& slot = find(text, text.size());
  const std::uint32_t before = slot;
  slot = static_cast<std::uint32_t>(text.size());
  if (before != 0) return before;
  if (2 * ++n_used_ > slots_.size()) grow(text);
  return std::nullopt;
}

// --- PromptLookup --------------------------------------------------------------------------------

PromptLookup::PromptLookup(PromptLookupOptions options)
    : cost_(options.row_cost), learns_cost_(options.learns_cost) {
  begin({});
}

void PromptLookup::begin(std::span<const TokenId> prompt) {
  text_.clear();
  for (NgramIndex& index : indexes_) index.clear();
  source_.reset();
  match_length_ = 0;
  for (const TokenId token : prompt) add(token);
  // How a prompt repeats itself says little about how an answer will.
  for (std::size_t i = 0; i < rates_.size(); ++i)
    rates_[i] = {kFirstRates[i] * kFirstGuesses, kFirstGuesses};
}

void PromptLookup::append(TokenId token) {
  if (source_) {
    HitRate& rate = rates_[rate_of(match_length_)];
    const double kept = 1 - 1 / kMemory;
    rate.hits = rate.hits * kept + (text_[*source_] == token ? 1 : 0);
    rate.guesses = rate.guesses * kept + 1;
  }
  add(token);
}

void PromptLookup::add(TokenId token) {
  const bool hit = source_ && text_[*source_] == token;
  const std::size_t continued = hit ? *source_ + 1 : 0;
  text_.push_back(token);
  source_.reset();
  for (NgramIndex& index : indexes_) {  // every index sees every token, the longest n first
    const auto end = index.append(text_);
    if (end && !source_) source_ = end;
  }
  if (!source_) {
    match_length_ = 0;
  } else if (hit && *source_ == continued) {
    match_length_ = std::min(match_length_ + 1, kMaxMatch);
  } else {
    match_length_ = 0;
    while (match_length_ < std::min(*source_, kMaxMatch) &&
           text_[*source_ - 1 - match_length_] == text_[text_.size() - 1 - match_length_])
      ++match_length_;
  }
}

double PromptLookup::hit_rate(std::size_t match_length) const {
  const HitRate& rate = rates_[rate_of(match_length)];
  return rate.hits / rate.guesses;
}

std::size_t PromptLookup::best_length(std::size_t max_tokens) const {
  // A step over k guesses yields one token and as many as are right before the first wrong one.
  double all_right = 1;
  double yield = 1;
  double best_speed = 1;
  std::size_t best = 0;
  for (std::size_t k = 1; k <= max_tokens; ++k) {
    all_right *= hit_rate(match_length_ + k - 1);
    yield += all_right;
    const double speed = yield / cost_.relative(k + 1);
    if (speed <= best_speed) continue;
    best_speed = speed;
    best = k;
  }
  return best;
}

void PromptLookup::step_took(std::size_t n_tokens, double seconds) {
  if (learns_cost_) cost_.observe(n_tokens, seconds);
}

std::span<const TokenId> PromptLookup::draft(std::size_t max_tokens) {
  draft_.clear();
  if (!source_) return draft_;
  const std::size_t n = best_length(max_tokens);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t from = *source_ + i;
    draft_.push_back(from < text_.size() ? text_[from] : draft_[from - text_.size()]);
  }
  return draft_;
}

}  // namespace quire
