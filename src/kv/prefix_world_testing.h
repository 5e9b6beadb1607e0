#pragma once
// Random lives of sequences that share prefixes, in pools that are too small, against a model that
// knows neither pages nor blocks: the K and V of a token are a function of its namespace and of all
// tokens up to it. Whatever was adopted, copied, evicted or flushed, every slot that a sequence may
// see must hold what its own tokens say.

#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "kv/kv_manager.h"
#include "kv/kv_test_util.h"
#include "kv/prefix_texts_testing.h"

namespace quire::testing {

struct ModelSequence {
  std::size_t name_space = 0;
  Tokens tokens;
};

struct ModelPin {
  std::size_t name_space = 0;
  Tokens tokens;
};

class PrefixWorld {
 public:
  explicit PrefixWorld(KvConfig config) : kv_(KvManager::create(std::move(config)).value()) {}

  void step(std::uint32_t op) {
    switch (next(op, 14)) {
      case 0:
        if (model_.size() < 6) add_private();
        break;
      case 1:
      case 2:
      case 3:
        if (model_.size() < 6) add_sharing(op);
        break;
      case 4:
        if (model_.size() < 6 && !model_.empty()) {
          const SequenceId parent = pick(op);
          model_[kv_.fork(parent).value()] = model_[parent];
        }
        break;
      case 5:
        if (!model_.empty()) truncate(pick(op), next(op, 1 << 12));
        break;
      case 6:
      case 7:
        if (!model_.empty()) release(pick(op));
        break;
      case 8:
        if (next(op, 6) == 0) flush();
        break;
      case 9:
        pin_or_unpin(op);
        break;
      default:
        reserve(op);
    }
    check();
  }

  void finish() {
    while (!model_.empty()) release(model_.begin()->first);
    check();
    while (!pins_.empty()) {
      RC_ASSERT(kv_.unpin(pins_.begin()->first).has_value());
      pins_.erase(pins_.begin());
      check();
    }
    RC_ASSERT(kv_.stats().pages_available == kv_.stats().pages_total);
    kv_.flush_cache();
    check();
    const KvStats stats = kv_.stats();
    RC_ASSERT(stats.pages_free == stats.pages_total);
    RC_ASSERT(stats.prefix_blocks == 0u);
    RC_ASSERT(stats.prefix_namespaces == 0u);
  }

  /// Nothing was ever reclaimed: then a hit must be as long as what was published.
  void expect_whole_hits() { whole_hits_ = true; }

  std::size_t refusals = 0;
  std::size_t commits = 0;
  std::size_t hits = 0;
  std::size_t partial_hits = 0;
  std::size_t pins_made = 0;
  std::size_t pins_refused = 0;
  const KvManager& kv() const { return kv_; }

 private:
  static std::uint32_t next(std::uint32_t& bits, std::uint32_t n) {
    const std::uint32_t value = bits % n;
    bits = bits / n * 2654435761u + value;
    return value;
  }
  SequenceId pick(std::uint32_t& op) {
    return std::next(model_.begin(), next(op, static_cast<std::uint32_t>(model_.size())))->first;
  }
  static std::string name(std::size_t name_space) { return "tenant " + std::to_string(name_space); }
  static Tokens prompt(std::uint32_t& op) {
    Tokens tokens(next(op, 120) + 1);
    const std::size_t which = next(op, 3);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = script(which, i);
    return tokens;
  }

  void add_private() { model_[kv_.add_sequence()] = {kPrivate + n_private_++, {}}; }

  void add_sharing(std::uint32_t op) {
    const std::size_t name_space = next(op, kNamespaces);
    const SequenceId id = kv_.add_sequence(name(name_space));
    ModelSequence& sequence = model_[id] = {name_space, {}};
    if (next(op, 4) == 0) return;  // computes what it could have had: equal blocks meet
    const Tokens tokens = prompt(op);
    const std::size_t max_tokens = next(op, 5) == 0 ? tokens.size() / 2 : tokens.size() - 1;
    const PrefixMatch match = kv_.match_prefix(name(name_space), tokens, max_tokens);
    const std::size_t available = kv_.stats().pages_available;
    const std::size_t n = kv_.adopt_prefix(id, tokens, max_tokens);
    RC_ASSERT(n == match.n_tokens);
    RC_ASSERT(n <= max_tokens);
    RC_ASSERT(kv_.stats().pages_available + match.reclaimable_pages == available);
    const std::size_t longest = published_[name_space].longest(tokens, max_tokens);
    RC_ASSERT(n <= longest);
    if (whole_hits_) RC_ASSERT(n == longest);
    sequence.tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n));
    hits += n > 0;
    partial_hits += n % page_size() != 0;
    RC_ASSERT(kv_.shares_tail(id) == (n % page_size() != 0 && sees_tail(n)));
  }

  /// Whether any layer keeps the page of position n - 1.
  bool sees_tail(std::size_t n) const {
    for (std::size_t layer = 0; layer < n_layers(); ++layer)
      if (visible_from(n, layer) < n) return true;
    return false;
  }

  void release(SequenceId id) {
    const std::size_t own = kv_.own_pages(id);
    const std::size_t available = kv_.stats().pages_available;
    const bool was_reserved = reserved_;
    kv_.release(id);
    if (!was_reserved) RC_ASSERT(kv_.stats().pages_available == available + own);
    kv_.release(id);
    model_.erase(id);
  }

  void flush() {
    const KvStats before = kv_.stats();
    RC_ASSERT(kv_.flush_cache() == before.pages_available - before.pages_free);
    RC_ASSERT(kv_.stats().pages_available == kv_.stats().pages_free);
    RC_ASSERT(kv_.stats().pages_hot + kv_.stats().pages_sealed ==
              before.pages_hot + before.pages_sealed);
    whole_hits_ = false;
  }

  void pin_or_unpin(std::uint32_t op) {
    if (!pins_.empty() && next(op, 2) == 0) {
      const auto gone =
          std::next(pins_.begin(), next(op, static_cast<std::uint32_t>(pins_.size())));
      RC_ASSERT(kv_.unpin(gone->first).has_value());
      RC_ASSERT(!kv_.unpin(gone->first).has_value());
      pins_.erase(gone);
      return;
    }
    const std::size_t name_space = next(op, kNamespaces);
    Tokens tokens = prompt(op);
    const KvStats before = kv_.stats();
    const auto pin = kv_.pin_prefix(name(name_space), tokens);
    if (!pin) {
      pins_refused += pin.error().code == ErrorCode::kOutOfMemory;
      RC_ASSERT(kv_.stats().pages_available == before.pages_available);
      return;
    }
    ++pins_made;
    RC_ASSERT(pin->n_tokens > 0 && pin->n_tokens % page_size() == 0);
    tokens.resize(pin->n_tokens);
    pins_[pin->id] = {name_space, tokens};
  }

  void truncate(SequenceId id, std::uint32_t random) {
    Tokens& tokens = model_[id].tokens;
    const std::size_t length = random % (tokens.size() + 1);
    bool allowed = true;
    for (std::size_t layer = 0; layer < n_layers(); ++layer) {
      const std::size_t first = kv_.table(id, layer).first_page * page_size();
      for (std::size_t p = visible_from(length, layer); p < length; ++p)
        allowed = allowed && p >= first;
    }
    RC_ASSERT(kv_.truncate(id, length).has_value() == allowed);
    if (allowed) tokens.resize(length);
  }

  void reserve(std::uint32_t op) {
    std::map<SequenceId, Tokens> more;
    std::vector<SlotRequest> requests;
    for (const auto& [id, sequence] : model_) {
      if (next(op, 2) == 0) continue;
      Tokens& tokens = more[id];
      tokens.resize(next(op, next(op, 3) == 0 ? 70 : 4));
      const std::size_t which = next(op, 3);
      for (std::size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = script(which, sequence.tokens.size() + i);
      requests.push_back({id, tokens});
    }
    std::size_t at_least = 0;
    std::size_t at_most = 0;
    for (const SlotRequest& request : requests) {
      const std::size_t length = model_[request.sequence].tokens.size();
      const std::size_t grown = (length + request.tokens.size() + page_size() - 1) / page_size();
      const std::size_t had = (length + page_size() - 1) / page_size();
      at_least += n_layers() * (grown - had);
      at_most += n_layers() * (grown - had + 1);
    }
    const std::size_t available = kv_.stats().pages_available;
    auto reservation = kv_.reserve(requests);
    if (!reservation) {
      ++refusals;
      RC_ASSERT(reservation.error().code == ErrorCode::kOutOfMemory);
      RC_ASSERT(at_most > available);
      RC_ASSERT(kv_.stats().pages_available == available);
      return;
    }
    RC_ASSERT(at_least <= available);
    for (auto& [id, tokens] : more) write(id, tokens);
    reserved_ = true;
    end(op, requests, more, std::move(*reservation));
    reserved_ = false;
  }

  void write(SequenceId id, const Tokens& more) {
    ModelSequence after = model_[id];
    after.tokens.insert(after.tokens.end(), more.begin(), more.end());
    for (std::size_t p = model_[id].tokens.size(); p < after.tokens.size(); ++p)
      write_slot(kv_, id, p, tag_of(after.name_space, after.tokens, p));
  }

  void end(std::uint32_t op, const std::vector<SlotRequest>& requests,
           const std::map<SequenceId, Tokens>& more, Reservation reservation) {
    check();                                    // writing must not have touched anything visible
    const std::uint32_t outcome = next(op, 8);  // 0: dropped, 1 and 2: one is released in between
    if ((outcome == 1 || outcome == 2) && !model_.empty()) {
      release(pick(op));
      check();
    }
    if (outcome <= 1) {
      const Reservation dropped = std::move(reservation);
      return;
    }
    ++commits;
    std::vector<std::size_t> kept;
    for (const SlotRequest& request : requests) {
      const auto n = static_cast<std::uint32_t>(request.tokens.size());
      kept.push_back(outcome == 3 ? next(op, n + 1) : n);
    }
    reservation.commit(kept);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto found = model_.find(requests[i].sequence);
      if (found == model_.end()) continue;
      ModelSequence& sequence = found->second;
      const Tokens& all = more.at(requests[i].sequence);
      sequence.tokens.insert(sequence.tokens.end(), all.begin(),
                             all.begin() + static_cast<std::ptrdiff_t>(kept[i]));
      if (sequence.name_space < kNamespaces)
        published_[sequence.name_space].add(sequence.tokens, page_size());
    }
  }

  void check() const {
    const Status valid = kv_.validate();
    if (!valid) RC_FAIL(valid.error().message);
    for (const auto& [id, sequence] : model_) {
      const Tokens& tokens = sequence.tokens;
      RC_ASSERT(kv_.length(id) == tokens.size());
      for (std::size_t layer = 0; layer < n_layers(); ++layer)
        for (std::size_t p = visible_from(tokens.size(), layer); p < tokens.size(); ++p)
          RC_ASSERT(slot_has(kv_, id, layer, p, tag_of(sequence.name_space, tokens, p)));
    }
    for (const auto& [id, pin] : pins_)
      RC_ASSERT(kv_.match_prefix(name(pin.name_space), pin.tokens, pin.tokens.size()).n_tokens ==
                pin.tokens.size());
  }

  std::size_t visible_from(std::size_t length, std::size_t layer) const {
    const std::size_t window = kv_.config().layers[layer].window;
    return window == 0 || length < window ? 0 : length + 1 - window;
  }
  std::size_t n_layers() const { return kv_.config().layers.size(); }
  std::size_t page_size() const { return kv_.stats().page_size; }

  KvManager kv_;
  std::map<SequenceId, ModelSequence> model_;
  std::map<PinId, ModelPin> pins_;
  std::array<PublishedTexts, kNamespaces> published_;
  std::size_t n_private_ = 0;
  bool whole_hits_ = false;
  bool reserved_ = false;
};

}  // namespace quire::testing
