#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/bridge.h"
#include "text/tokenizer.h"

namespace quire {

/// Byte-level BPE ("gpt2"), by Hugging Face's own library between special and user-defined tokens.
class BpeTokenizer final : public Tokenizer {
 public:
  /// data is checked and has a kind for every token.
  static Result<std::unique_ptr<Tokenizer>> create(TokenizerData data,
                                                   std::span<const std::string_view> merges);

  Result<std::vector<TokenId>> encode(std::string_view text, ParseSpecial special) const override;
  std::string token_bytes(TokenId id, bool show_special) const override;
  bool adds_space_prefix() const override { return false; }

 private:
  BpeTokenizer(TokenizerData data, bridge::BpeHandle bpe);
  Status encode_plain(std::string_view text, std::vector<TokenId>& ids) const;

  bridge::BpeHandle bpe_;
  TextMatcher added_;  // control, unknown and user-defined tokens
};

}  // namespace quire
