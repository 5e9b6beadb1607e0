#pragma once

#include <cstddef>
#include <span>

#include "base/ids.h"

namespace quire {

/// Guesses how a text goes on. A step then computes the guessed tokens together with the one that
/// is certain, and keeps those that the model would have chosen: wrong guesses cost time, never
/// another answer.
class Drafter {
 public:
  virtual ~Drafter() = default;

  /// Forgets everything: the text is now `prompt`.
  virtual void begin(std::span<const TokenId> prompt) = 0;
  /// The token that did follow.
  virtual void append(TokenId token) = 0;
  /// The next tokens, at most max_tokens and perhaps none; valid until the next call.
  virtual std::span<const TokenId> draft(std::size_t max_tokens) = 0;
  /// How long a step of so many tokens took, guesses included.
  virtual void step_took(std::size_t /*n_tokens*/, double /*seconds*/) {}
};

}  // namespace quire
