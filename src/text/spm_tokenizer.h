#pragma once

#include <array>
#include <memory>

#include "text/text_matcher.h"
#include "text/token_index.h"
#include "text/tokenizer.h"

namespace quire {

/// BPE as SentencePiece does it ("llama"): spaces are U+2581, neighbours merge into the token with
/// the best score, and what is no token is spelled in byte tokens. User-defined tokens are found in
/// the text first, and spaces merge into them before anything else.
class SpmTokenizer final : public Tokenizer {
 public:
  /// data is checked and has a kind for every token.
  static Result<std::unique_ptr<Tokenizer>> create(TokenizerData data);

  Result<std::vector<TokenId>> encode(std::string_view text, ParseSpecial special) const override;
  std::string token_bytes(TokenId id, bool show_special) const override;
  bool adds_space_prefix() const override { return data_.add_space_prefix; }

 private:
  explicit SpmTokenizer(TokenizerData data);

  /// Encodes text without control tokens.
  void encode_plain(std::string_view text, std::vector<TokenId>& ids) const;
  void spell_in_bytes(std::string_view text, std::vector<TokenId>& ids) const;

  std::vector<std::string> escaped_;     // user-defined tokens with U+2581 for spaces
  TextMatcher user_defined_;             // in normalized text
  TokenIndex pieces_;                    // what merging may make
  std::array<TokenId, 256> byte_ids_{};  // -1: the vocabulary has none
};

}  // namespace quire
