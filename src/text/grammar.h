#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace quire {

enum class GrammarKind : std::uint8_t { kJsonSchema, kRegex, kLark };

/// What an answer has to look like, and how far it has got. Each answer has its own; one thread at
/// a time.
class Grammar {
 public:
  Grammar(Grammar&&) noexcept;
  Grammar& operator=(Grammar&&) noexcept;
  ~Grammar();

  /// Another one at the same place.
  Result<Grammar> fork() const;

  /// Bits of words, 32 tokens each, lowest first: token t may come next. Tokens that end an answer
  /// may where the grammar is complete. An error if its limits are used up; valid until the next
  /// call.
  Result<std::span<const std::uint32_t>> allowed();
  Status accept(TokenId token);
  /// Nothing can follow but the end.
  bool complete() const;

 private:
  friend class GrammarCompiler;
  struct Impl;
  explicit Grammar(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Compiles grammars for the vocabulary of one model (llguidance). Safe to share between threads.
class GrammarCompiler {
 public:
  /// Takes some tens of milliseconds for a large vocabulary. Refused if no token ends an answer.
  static Result<GrammarCompiler> create(const Tokenizer& tokenizer);
  GrammarCompiler(GrammarCompiler&&) noexcept;
  GrammarCompiler& operator=(GrammarCompiler&&) noexcept;
  ~GrammarCompiler();

  /// Takes milliseconds: not for the step thread. The source may be hostile: its size (256 KiB),
  /// states and what a step may cost are limited.
  Result<Grammar> compile(GrammarKind kind, std::string_view source) const;

 private:
  struct Impl;
  explicit GrammarCompiler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
