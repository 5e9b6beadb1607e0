#include "model/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "model/gguf_text.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"

namespace quire {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kModelKey = "tokenizer.ggml.model";
constexpr std::string_view kPreKey = "tokenizer.ggml.pre";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
// Of the text of special and user-defined tokens, which is searched for at 16 bytes of memory for
// each of theirs, and once more for user-defined ones. Known vocabularies have some 100 KiB.
constexpr std::size_t kMaxSpecialBytes = std::size_t{1} << 20;

using Tokens = std::vector<std::string_view>;

void set_defaults(TokenizerData& data, std::size_t n) {
  if (data.model == "llama") {
    data.add_bos = true;
    data.add_space_prefix = true;
    // SentencePiece's own ids. (For "gpt2" llama.cpp falls back to 11, Falcon's end of text; that
    // is an ordinary token anywhere else, so here absent means none.)
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

/// Checks the vocabulary, and that arrays beside it are as long.
Result<const Tokens*> find_tokens(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(const Tokens* tokens, file.optional_strings(kTokensKey));
  if (tokens == nullptr) return file.refuse(kTokensKey, "");
  if (tokens->empty()) return file.refuse(kTokensKey, "the vocabulary is empty");
  if (tokens->size() > static_cast<std::size_t>(std::numeric_limits<TokenId>::max()))
    return file.refuse(kTokensKey, "more tokens than a 32-bit id can count");
  for (const std::string_view key : {kTypesKey, kScoresKey}) {
    const GgufValue* value = file.find(key);
    const auto* array = value == nullptr ? nullptr : std::get_if<GgufArray>(value);
    if (array != nullptr && array->size() != tokens->size())
      return file.refuse(
          key, fmt::format("it has {} items for {} tokens", array->size(), tokens->size()));
  }
  return tokens;
}

/// What a token takes in the automaton that finds it; SentencePiece makes three bytes of a space.
std::size_t special_bytes(std::string_view token) {
  return token.size() + 2 * static_cast<std::size_t>(std::ranges::count(token, ' '));
}

Status read_kinds(const GgufFile& file, const Tokens& tokens, TokenizerData& data) {
  QUIRE_ASSIGN_OR_RETURN(const auto kinds, file.optional_ints(kTypesKey));
  if (!kinds) return {};
  std::size_t sum = 0;
  data.kinds.reserve(kinds->size());
  for (std::size_t i = 0; i < kinds->size(); ++i) {
    const std::int64_t kind = (*kinds)[i];
    if (kind < 0 || kind > 6)
      return file.refuse(kTypesKey, fmt::format("the type of token {} is {}, not 0 to 6", i, kind));
    // 0 is "undefined", which writers use for a plain token.
    data.kinds.push_back(kind == 0 ? TokenKind::kNormal : static_cast<TokenKind>(kind));
    if (!is_special(data.kinds.back()) && data.kinds.back() != TokenKind::kUserDefined) continue;
    if (valid_utf8_length(tokens[i]) != tokens[i].size())
      return file.refuse(kTokensKey,
                         fmt::format("token {} ('{}'), a special or user-defined one, is not "
                                     "valid UTF-8",
                                     i, printable(tokens[i])));
    sum += special_bytes(tokens[i]);
  }
  if (sum > kMaxSpecialBytes)
    return file.refuse(kTypesKey,
                       fmt::format("its special and user-defined tokens have {} bytes of text, "
                                   "spaces counted as three, at most {} allowed",
                                   sum, kMaxSpecialBytes));
  return {};
}

Status read_scores(const GgufFile& file, TokenizerData& data) {
  QUIRE_ASSIGN_OR_RETURN(const auto scores, file.optional_floats(kScoresKey));
  if (!scores) return {};
  data.scores.reserve(scores->size());
  for (const double score : *scores) {
    if (std::abs(score) > static_cast<double>(std::numeric_limits<float>::max()))
      return file.refuse(kScoresKey, "a score does not fit into a 32-bit float");
    data.scores.push_back(static_cast<float>(score));
  }
  return {};
}

Status read_special_ids(const GgufFile& file, std::size_t n_tokens, TokenizerData& data) {
  const std::pair<std::string_view, std::optional<TokenId>*> ids[] = {
      {"tokenizer.ggml.bos_token_id", &data.bos},
      {"tokenizer.ggml.eos_token_id", &data.eos},
      {"tokenizer.ggml.eot_token_id", &data.eot},
      {"tokenizer.ggml.eom_token_id", &data.eom},
      {"tokenizer.ggml.unknown_token_id", &data.unk},
      {"tokenizer.ggml.padding_token_id", &data.pad},
  };
  for (const auto& [key, id] : ids) {
    QUIRE_ASSIGN_OR_RETURN(const auto value, file.optional_uint(key, 0, n_tokens - 1));
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

Result<std::string> read_model(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(auto model, file.require_string(kModelKey));
  if (model == "gpt2" || model == "llama") return model;
  return fail(ErrorCode::kUnsupported,
              "{}: key '{}' is '{}'; only 'gpt2' (byte-level BPE) and 'llama' (SentencePiece) "
              "tokenizers are known",
              file.name(), kModelKey, printable(model));
}

/// What the kind of tokenizer cannot do without.
Status check_parts(const GgufFile& file, const std::string& model, const Tokens& tokens) {
  if (model == "llama") {
    if (file.find(kScoresKey) == nullptr) return file.refuse(kScoresKey, "");
    return {};
  }
  if (file.find(kMergesKey) == nullptr) return file.refuse(kMergesKey, "");
  QUIRE_ASSIGN_OR_RETURN(const auto pre, file.optional_string(kPreKey));
  if (const auto known = find_pre_tokenizer(pre.value_or("")); !known) {
    if (!pre)
      return fail(known.error().code, "{}: key '{}' is missing: {}", file.name(), kPreKey,
                  known.error().message);
    return fail(known.error().code, "{}: key '{}' at byte {}: {}", file.name(), kPreKey,
                file.find_key(kPreKey)->offset, known.error().message);
  }
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (valid_utf8_length(tokens[i]) != tokens[i].size())
      return file.refuse(
          kTokensKey, fmt::format("token {} ('{}') is not valid UTF-8", i, printable(tokens[i])));
  return {};
}

}  // namespace

Result<TokenizerData> tokenizer_data_from_gguf(const GgufFile& file) {
  TokenizerData data;
  QUIRE_ASSIGN_OR_RETURN(data.model, read_model(file));
  QUIRE_ASSIGN_OR_RETURN(auto pre, file.optional_string(kPreKey));
  if (pre) data.pre = std::move(*pre);
  QUIRE_ASSIGN_OR_RETURN(const Tokens* tokens, find_tokens(file));
  set_defaults(data, tokens->size());
  QUIRE_RETURN_IF_ERROR(read_special_ids(file, tokens->size(), data));
  QUIRE_RETURN_IF_ERROR(read_flags(file, data));
  QUIRE_RETURN_IF_ERROR(file.optional_strings(kMergesKey));
  QUIRE_RETURN_IF_ERROR(read_kinds(file, *tokens, data));
  QUIRE_RETURN_IF_ERROR(read_scores(file, data));
  data.tokens.assign(tokens->begin(), tokens->end());
  return data;
}

Result<TokenizerData> usable_tokenizer_data(const GgufFile& file, std::size_t max_tokens) {
  QUIRE_ASSIGN_OR_RETURN(const std::string model, read_model(file));
  QUIRE_ASSIGN_OR_RETURN(const Tokens* tokens, find_tokens(file));
  if (tokens->size() > max_tokens)
    return file.refuse(kTokensKey, fmt::format("{} tokens, but the embedding has only {} rows",
                                               tokens->size(), max_tokens));
  QUIRE_RETURN_IF_ERROR(check_parts(file, model, *tokens));
  return tokenizer_data_from_gguf(file);
}

Result<std::unique_ptr<Tokenizer>> build_tokenizer(const GgufFile& file, TokenizerData data) {
  const std::string_view key = data.model == "gpt2" ? kMergesKey : kTokensKey;
  QUIRE_ASSIGN_OR_RETURN(const Tokens* merges, file.optional_strings(kMergesKey));
  auto tokenizer = merges == nullptr ? Tokenizer::create(std::move(data))
                                     : Tokenizer::create(std::move(data), *merges);
  // All else is checked, so that it is about the one part that only the tokenizer understands.
  if (!tokenizer) return file.refuse(key, tokenizer.error().message);
  return tokenizer;
}

}  // namespace quire
