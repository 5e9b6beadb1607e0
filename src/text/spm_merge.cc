#include "text/spm_merge.h"

#include <queue>

namespace quire {
namespace {

struct Candidate {
  int left;
  int right;
  float score;
  std::size_t size;  // of both texts when it was found: stale if they have grown since

  /// Whether `other` goes first.
  bool operator<(const Candidate& other) const {
    return score < other.score || (score == other.score && left > other.left);
  }
};

}  // namespace

void spm_merge(std::vector<SpmSymbol>& symbols, const SpmScore& score) {
  std::vector<Candidate> initial;
  initial.reserve(symbols.size());
  const auto candidate = [&](int left, int right, auto&& add) {
    if (left < 0 || right < 0) return;
    const SpmSymbol& a = symbols[static_cast<std::size_t>(left)];
    const SpmSymbol& b = symbols[static_cast<std::size_t>(right)];
    if (a.frozen || b.frozen) return;
    // Neighbours lie side by side in the same text.
    const std::string_view both(a.text.data(), a.text.size() + b.text.size());
    if (const float* s = score(both)) add(Candidate{left, right, *s, both.size()});
  };

  for (int i = 1; i < static_cast<int>(symbols.size()); ++i) {
    candidate(i - 1, i, [&](Candidate c) { initial.push_back(c); });
  }
  std::priority_queue<Candidate> queue({}, std::move(initial));
  const auto push = [&](Candidate c) { queue.push(c); };

  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    SpmSymbol& left = symbols[static_cast<std::size_t>(best.left)];
    SpmSymbol& right = symbols[static_cast<std::size_t>(best.right)];
    if (left.text.empty() || right.text.empty() ||
        left.text.size() + right.text.size() != best.size) {
      continue;
    }
    left.text = {left.text.data(), best.size};
    right.text = {};
    left.next = right.next;
    if (right.next >= 0) symbols[static_cast<std::size_t>(right.next)].previous = best.left;
    candidate(left.previous, best.left, push);
    candidate(best.left, left.next, push);
  }
}

}  // namespace quire
