#include "text/tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>

#include "text/bpe_tokenizer.h"
#include "text/spm_tokenizer.h"

namespace quire {
namespace {

// Control tokens that end an answer in one model family or another. Files often name only one of
// theirs as EOS, and a model that is fine-tuned for chat then runs on past its turn.
constexpr std::array<std::string_view, 19> kEndNames = {
    "</s>",
    "<EOT>",
    "<end_of_turn>",
    "<eos>",
    "<turn|>",
    "<|call|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end_of_turn|>",
    "<|eom|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|eot_id|>",
    "<|im_end|>",
    "<|return|>",
    "<|EOT|>",
    "[EOS]",
    "<｜end▁of▁sentence｜>",
};

Status check(const TokenizerData& data) {
  const std::size_t n = data.tokens.size();
  if (n == 0) return fail(ErrorCode::kInvalidData, "the tokenizer has no tokens");
  if (n > static_cast<std::size_t>(std::numeric_limits<TokenId>::max())) {
    return fail(ErrorCode::kInvalidData, "the tokenizer has {} tokens, too many to number", n);
  }
  if (!data.kinds.empty() && data.kinds.size() != n) {
    return fail(ErrorCode::kInvalidData, "the tokenizer has {} tokens but {} token types", n,
                data.kinds.size());
  }
  if (!data.scores.empty() && data.scores.size() != n) {
    return fail(ErrorCode::kInvalidData, "the tokenizer has {} tokens but {} scores", n,
                data.scores.size());
  }
  for (const auto& id : {data.bos, data.eos, data.eot, data.eom, data.unk, data.pad}) {
    if (id && (*id < 0 || static_cast<std::size_t>(*id) >= n)) {
      return fail(ErrorCode::kInvalidData, "special token {} is not one of the {} tokens", *id, n);
    }
  }
  return {};
}

}  // namespace

Tokenizer::Tokenizer(TokenizerData data) : data_(std::move(data)) {
  for (const auto& id : {data_.eos, data_.eot, data_.eom}) {
    if (id) end_ids_.push_back(*id);
  }
  std::vector<TextMatcher::Entry> control;
  for (std::size_t i = 0; i < data_.tokens.size(); ++i) {
    longest_token_ = std::max(longest_token_, data_.tokens[i].size());
    if (data_.kinds[i] == TokenKind::kControl && std::ranges::count(kEndNames, data_.tokens[i])) {
      end_ids_.push_back(static_cast<TokenId>(i));
    }
    if (is_special(data_.kinds[i])) {
      control.push_back({data_.tokens[i], static_cast<TokenId>(i)});
    }
  }
  control_tokens_ = TextMatcher(std::move(control));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(TokenizerData data,
                                                     std::span<const std::string_view> merges) {
  QUIRE_RETURN_IF_ERROR(check(data));
  if (data.kinds.empty()) data.kinds.assign(data.tokens.size(), TokenKind::kNormal);
  if (data.model == "gpt2") return BpeTokenizer::create(std::move(data), merges);
  if (data.model == "llama") return SpmTokenizer::create(std::move(data));
  return fail(ErrorCode::kUnsupported,
              "tokenizer.ggml.model is '{}'; known are gpt2 (byte-level BPE) and llama "
              "(SentencePiece)",
              data.model);
}

bool Tokenizer::is_end_of_generation(TokenId id) const {
  return std::ranges::find(end_ids_, id) != end_ids_.end();
}

std::vector<TokenId> Tokenizer::with_bos(std::vector<TokenId> ids) const {
  if (data_.add_bos && data_.bos && (ids.empty() || ids.front() != *data_.bos)) {
    ids.insert(ids.begin(), *data_.bos);
  }
  return ids;
}

}  // namespace quire
