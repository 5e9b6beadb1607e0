#include "model/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "model/gguf_text.h"

namespace quire {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kModelKey = "tokenizer.ggml.model";

void set_defaults(TokenizerData& data) {
  if (data.model == "llama") {
    data.add_bos = true;
    data.add_space_prefix = true;
    // SentencePiece's own ids. (For "gpt2" llama.cpp falls back to 11, Falcon's end of text; that
    // is an ordinary token anywhere else, so here absent means none.)
    const auto n = data.tokens.size();
    if (n > 0) data.unk = 0;
    if (n > 1) data.bos = 1;
    if (n > 2) data.eos = 2;
    return;
  }
  data.add_space_prefix = false;
  // Pre-tokenizers of models that were trained with BOS in front.
  static constexpr std::array<std::string_view, 5> kWithBos = {"llama3", "llama-v3", "llama-bpe",
                                                               "falcon3", "tekken"};
  data.add_bos = std::find(kWithBos.begin(), kWithBos.end(), data.pre) != kWithBos.end();
}

Status read_tokens(const GgufFile& file, TokenizerData& data) {
  QUIRE_ASSIGN_OR_RETURN(const auto* tokens, file.optional_strings(kTokensKey));
  if (tokens == nullptr) return file.refuse(kTokensKey, "");
  if (tokens->empty()) return file.refuse(kTokensKey, "the vocabulary is empty");
  if (tokens->size() > static_cast<std::size_t>(std::numeric_limits<TokenId>::max()))
    return file.refuse(kTokensKey, "more tokens than a 32-bit id can count");
  data.tokens.assign(tokens->begin(), tokens->end());
  return {};
}

Status check_length(const GgufFile& file, std::string_view key, std::size_t length,
                    std::size_t n_tokens) {
  if (length == n_tokens) return {};
  return file.refuse(key, fmt::format("it has {} items for {} tokens", length, n_tokens));
}

Status read_kinds(const GgufFile& file, TokenizerData& data) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  QUIRE_ASSIGN_OR_RETURN(const auto kinds, file.optional_ints(kKey));
  if (!kinds) return {};
  QUIRE_RETURN_IF_ERROR(check_length(file, kKey, kinds->size(), data.tokens.size()));
  data.kinds.reserve(kinds->size());
  for (std::size_t i = 0; i < kinds->size(); ++i) {
    const std::int64_t kind = (*kinds)[i];
    if (kind < 0 || kind > 6)
      return file.refuse(kKey, fmt::format("the type of token {} is {}, not 0 to 6", i, kind));
    // 0 is "undefined", which writers use for a plain token.
    data.kinds.push_back(kind == 0 ? TokenKind::kNormal : static_cast<TokenKind>(kind));
  }
  return {};
}

Status read_scores(const GgufFile& file, TokenizerData& data) {
  constexpr std::string_view kKey = "tokenizer.ggml.scores";
  QUIRE_ASSIGN_OR_RETURN(const auto scores, file.optional_floats(kKey));
  if (!scores) return {};
  QUIRE_RETURN_IF_ERROR(check_length(file, kKey, scores->size(), data.tokens.size()));
  data.scores.reserve(scores->size());
  for (const double score : *scores) {
    if (std::abs(score) > static_cast<double>(std::numeric_limits<float>::max()))
      return file.refuse(kKey, "a score does not fit into a 32-bit float");
    data.scores.push_back(static_cast<float>(score));
  }
  return {};
}

Status read_merges(const GgufFile& file, TokenizerData& data) {
  QUIRE_ASSIGN_OR_RETURN(const auto* merges, file.optional_strings("tokenizer.ggml.merges"));
  if (merges != nullptr) data.merges.assign(merges->begin(), merges->end());
  return {};
}

Status read_special_ids(const GgufFile& file, TokenizerData& data) {
  const std::pair<std::string_view, std::optional<TokenId>*> ids[] = {
      {"tokenizer.ggml.bos_token_id", &data.bos},
      {"tokenizer.ggml.eos_token_id", &data.eos},
      {"tokenizer.ggml.eot_token_id", &data.eot},
      {"tokenizer.ggml.eom_token_id", &data.eom},
      {"tokenizer.ggml.unknown_token_id", &data.unk},
      {"tokenizer.ggml.padding_token_id", &data.pad},
  };
  for (const auto& [key, id] : ids) {
    QUIRE_ASSIGN_OR_RETURN(const auto value, file.optional_uint(key, 0, data.tokens.size() - 1));
    if (value) *id = static_cast<TokenId>(*value);
  }
  return {};
}

Status read_flags(const GgufFile& file, TokenizerData& data) {
  const std::pair<std::string_view, bool*> flags[] = {
      {"tokenizer.ggml.add_bos_token", &data.add_bos},
      {"tokenizer.ggml.add_eos_token", &data.add_eos},
      {"tokenizer.ggml.add_space_prefix", &data.add_space_prefix},
      {"tokenizer.ggml.remove_extra_whitespaces", &data.remove_extra_whitespaces},
  };
  for (const auto& [key, flag] : flags) {
    QUIRE_ASSIGN_OR_RETURN(const auto value, file.optional_bool(key));
    if (value) *flag = *value;
  }
  if (data.add_bos && !data.bos)
    return fail(ErrorCode::kInvalidData,
                "{}: the tokenizer wants a BOS token in front, but key "
                "'tokenizer.ggml.bos_token_id' is missing",
                file.name());
  if (data.add_eos && !data.eos)
    return fail(ErrorCode::kInvalidData,
                "{}: the tokenizer wants an EOS token at the end, but key "
                "'tokenizer.ggml.eos_token_id' is missing",
                file.name());
  return {};
}

}  // namespace

Result<TokenizerData> tokenizer_data_from_gguf(const GgufFile& file) {
  TokenizerData data;
  QUIRE_ASSIGN_OR_RETURN(data.model, file.require_string(kModelKey));
  if (data.model != "gpt2" && data.model != "llama")
    return fail(ErrorCode::kUnsupported,
                "{}: key '{}' is '{}'; only 'gpt2' (byte-level BPE) and 'llama' (SentencePiece) "
                "tokenizers are known",
                file.name(), kModelKey, printable(data.model));
  QUIRE_ASSIGN_OR_RETURN(auto pre, file.optional_string("tokenizer.ggml.pre"));
  if (pre) data.pre = std::move(*pre);
  QUIRE_RETURN_IF_ERROR(read_tokens(file, data));
  set_defaults(data);
  QUIRE_RETURN_IF_ERROR(read_kinds(file, data));
  QUIRE_RETURN_IF_ERROR(read_scores(file, data));
  QUIRE_RETURN_IF_ERROR(read_merges(file, data));
  QUIRE_RETURN_IF_ERROR(read_special_ids(file, data));
  QUIRE_RETURN_IF_ERROR(read_flags(file, data));
  return data;
}

}  // namespace quire
