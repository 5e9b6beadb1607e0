#include "sample/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace quire {

std::size_t StopMatcher::advance(const Pattern& pattern, std::size_t matched, char c) {
  while (matched > 0 && (matched == pattern.text.size() || pattern.text[matched] != c)) {
    matched = pattern.border[matched - 1];
  }
  return pattern.text[matched] == c ? matched + 1 : 0;
}

Result<StopMatcher> StopMatcher::create(std::vector<std::string> stops) {
  StopMatcher matcher;
  for (auto& stop : stops) {
    if (stop.empty()) return fail(ErrorCode::kInvalidArgument, "a stop string must not be empty");
    if (valid_utf8_length(stop) != stop.size()) {
      return fail(ErrorCode::kInvalidArgument, "a stop string must be valid UTF-8");
    }
    Pattern pattern{std::move(stop), {0}, 0};
    for (std::size_t i = 1; i < pattern.text.size(); ++i) {
      pattern.border.push_back(advance(pattern, pattern.border.back(), pattern.text[i]));
    }
    matcher.patterns_.push_back(std::move(pattern));
  }
  return matcher;
}

std::string StopMatcher::push(std::string_view piece) {
  if (stopped()) return {};
  for (const char c : piece) {
    held_.push_back(c);
    for (auto& pattern : patterns_) {
      pattern.matched = advance(pattern, pattern.matched, c);
      if (pattern.matched != pattern.text.size()) continue;
      if (pattern.text.size() > matched_.size()) matched_ = pattern.text;
    }
    if (stopped()) {
      std::string out = held_.substr(0, held_.size() - matched_.size());
      held_.clear();
      return out;
    }
  }
  std::size_t claimed = 0;  // bytes that could still become a stop string
  for (const auto& pattern : patterns_) claimed = std::max(claimed, pattern.matched);
  std::string out = held_.substr(0, held_.size() - claimed);
  held_.erase(0, out.size());
  return out;
}

std::string StopMatcher::finish() {
  for (auto& pattern : patterns_) pattern.matched = 0;
  return std::exchange(held_, {});
}

}  // namespace quire
