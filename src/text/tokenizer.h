#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/text_matcher.h"

namespace quire {

/// GGUF's tokenizer.ggml.token_type values.
enum class TokenKind : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

/// What no text of a user may become.
constexpr bool is_special(TokenKind kind) {
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown;
}

/// What a model file says of its tokenizer, already checked: kinds and scores are as long as
/// tokens or empty, ids are in range.
struct TokenizerData {
  std::string model;  // tokenizer.ggml.model: "gpt2" or "llama"
  std::string pre;    // tokenizer.ggml.pre; empty if absent
  std::vector<std::string> tokens;
  std::vector<TokenKind> kinds;
  std::vector<float> scores;
  std::optional<TokenId> bos, eos, eot, eom, unk, pad;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = true;
  bool remove_extra_whitespaces = false;
};

enum class ParseSpecial : bool { kNo, kYes };

/// Text to token ids and back. Immutable after construction; safe to share between threads.
class Tokenizer {
 public:
  /// `merges`: tokenizer.ggml.merges, "LEFT RIGHT" each, best first; only for "gpt2".
  static Result<std::unique_ptr<Tokenizer>> create(TokenizerData data,
                                                   std::span<const std::string_view> merges = {});
  virtual ~Tokenizer() = default;

  /// Never adds BOS or EOS. Special tokens in the text become their ids only with kYes; user
  /// content is encoded with kNo. Any bytes are accepted, invalid UTF-8 too.
  virtual Result<std::vector<TokenId>> encode(std::string_view text,
                                              ParseSpecial special) const = 0;

  /// The bytes one token stands for; control tokens give their text only if `show_special`.
  /// An id that is out of range has no bytes.
  virtual std::string token_bytes(TokenId id, bool show_special) const = 0;

  /// Whether encoding puts a space in front of the text, which decoding then takes away.
  virtual bool adds_space_prefix() const = 0;

  const TokenizerData& data() const { return data_; }
  std::size_t vocab_size() const { return data_.tokens.size(); }
  /// Bytes of the longest token as the vocabulary writes it: no token stands for more of a text,
  /// but for an unknown one.
  std::size_t longest_token() const { return longest_token_; }
  /// The texts that encode() takes for special tokens with kYes and for plain text with kNo.
  const TextMatcher& control_tokens() const { return control_tokens_; }
  /// EOS, EOT, EOM and every control token that is known to end an answer.
  bool is_end_of_generation(TokenId id) const;
  /// ids with exactly one BOS in front if the model wants one.
  std::vector<TokenId> with_bos(std::vector<TokenId> ids) const;

 protected:
  explicit Tokenizer(TokenizerData data);
  TokenizerData data_;

 private:
  std::vector<TokenId> end_ids_;
  std::size_t longest_token_ = 1;
  TextMatcher control_tokens_;
};

/// Turns tokens into text as they come: a character split over tokens is held back until whole.
class StreamDecoder {
 public:
  /// `continues`: the tokens go on from other text, so a space at their beginning is a real one.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool show_special = false,
                         bool continues = false)
      : tokenizer_(&tokenizer), show_special_(show_special), at_start_(!continues) {}

  /// The text that became complete with this token; always valid UTF-8.
  std::string push(TokenId id);
  /// What is left at the end, incomplete bytes as U+FFFD.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool show_special_;
  bool at_start_;
  std::string pending_;
};

}  // namespace quire
