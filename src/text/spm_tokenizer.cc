#include "text/spm_tokenizer.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "text/spm_merge.h"
#include "text/utf8.h"

namespace quire {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581
// Symbols are numbered by int, and spaces triple.
constexpr std::size_t kMaxTextBytes = std::size_t{256} << 20;

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (;;) {
    const std::size_t at = text.find(from);
    out.append(text.substr(0, at));
    if (at == text.npos) return out;
    out.append(to);
    text.remove_prefix(at + from.size());
  }
}

/// Without spaces at the ends and runs of them, if asked; with one in front, if asked.
std::string with_spaces(std::string_view text, bool remove_extra, bool add_prefix) {
  std::string out(add_prefix ? 1 : 0, ' ');
  const std::size_t start = out.size();
  for (const char c : text) {
    const bool extra = c == ' ' && (out.size() == start || out.back() == ' ');
    if (!remove_extra || !extra) out.push_back(c);
  }
  if (remove_extra && out.ends_with(' ')) out.pop_back();
  return out;
}

/// The byte of a token that is written <0x0A>, or -1.
int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  int byte = -1;
  const char* end = token.data() + 5;
  const auto [stop, error] = std::from_chars(token.data() + 3, end, byte, 16);
  return error == std::errc() && stop == end ? byte : -1;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> SpmTokenizer::create(TokenizerData data) {
  if (data.scores.empty()) {
    return fail(ErrorCode::kInvalidData,
                "the tokenizer has no scores, which a tokenizer of type llama needs");
  }
  if (std::ranges::any_of(data.scores, [](float s) { return !(s == s); })) {
    return fail(ErrorCode::kInvalidData, "a score of the tokenizer is not a number");
  }
  return std::unique_ptr<Tokenizer>(new SpmTokenizer(std::move(data)));
}

SpmTokenizer::SpmTokenizer(TokenizerData data)
    : Tokenizer(std::move(data)), pieces_(data_.tokens.size()) {
  byte_ids_.fill(-1);
  const std::size_t n = data_.tokens.size();
  // Views go into these, so they must not move.
  escaped_.reserve(
      static_cast<std::size_t>(std::ranges::count(data_.kinds, TokenKind::kUserDefined)));

  std::vector<TextMatcher::Entry> user_defined;
  for (std::size_t i = 0; i < n; ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string& token = data_.tokens[i];
    switch (data_.kinds[i]) {
      case TokenKind::kUserDefined:
        // Files hold them with plain spaces, SentencePiece with escaped ones.
        escaped_.push_back(replace_all(token, " ", kSpace));
        user_defined.push_back({escaped_.back(), id});
        // Files give them scores of all sorts; to SentencePiece they come before any merge.
        data_.scores[i] = std::numeric_limits<float>::infinity();
        break;
      case TokenKind::kByte:
        if (const int byte = byte_of_token(token); byte >= 0) {
          byte_ids_[static_cast<std::size_t>(byte)] = id;
        }
        break;
      case TokenKind::kNormal:
        pieces_.insert(token, id);
        break;
      case TokenKind::kControl:
      case TokenKind::kUnknown:
      case TokenKind::kUnused:
        break;
    }
  }
  // After the ordinary tokens, which win where a text is both.
  for (const TextMatcher::Entry& entry : user_defined) pieces_.insert(entry.text, entry.id);
  user_defined_ = TextMatcher(std::move(user_defined));
}

Result<std::vector<TokenId>> SpmTokenizer::encode(std::string_view text,
                                                  ParseSpecial special) const {
  if (text.size() > kMaxTextBytes) {
    return fail(ErrorCode::kInvalidArgument,
                "a text of {} bytes is too long to encode at once, at most {} are possible",
                text.size(), kMaxTextBytes);
  }
  std::vector<TokenId> ids;
  std::size_t start = 0;
  if (special == ParseSpecial::kYes) {
    for (const auto& [begin, match] : control_tokens().split(text)) {
      encode_plain(text.substr(start, begin - start), ids);
      ids.push_back(match.id);
      start = begin + match.length;
    }
  }
  encode_plain(text.substr(start), ids);
  return ids;
}

void SpmTokenizer::encode_plain(std::string_view text, std::vector<TokenId>& ids) const {
  if (text.empty()) return;
  std::string spaced;
  if (data_.remove_extra_whitespaces || data_.add_space_prefix) {
    spaced = with_spaces(text, data_.remove_extra_whitespaces, data_.add_space_prefix);
    text = spaced;
  }

  // What merging sees: U+2581 for spaces. Symbols point into it, so it gets its size at once.
  std::string escaped;
  escaped.reserve(text.size() + 2 * static_cast<std::size_t>(std::ranges::count(text, ' ')));
  std::vector<SpmSymbol> symbols;
  symbols.reserve(text.size());
  const auto user_defined = user_defined_.all(text);
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const bool frozen = user_defined[at].length > 0;
    const std::size_t length = frozen ? user_defined[at].length : utf8_step(rest).length;
    const std::size_t start = escaped.size();
    escaped.append(!frozen && rest[0] == ' ' ? kSpace : rest.substr(0, length));
    const int index = static_cast<int>(symbols.size());
    symbols.push_back({.text = std::string_view(escaped).substr(start),
                       .frozen = frozen,
                       .previous = index - 1,
                       .next = index + 1});
    at += length;
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;

  spm_merge(symbols, [&](std::string_view both) -> const float* {
    const auto id = pieces_.find(both);
    return id ? &data_.scores[static_cast<std::size_t>(*id)] : nullptr;
  });

  for (const SpmSymbol& symbol : symbols) {
    if (symbol.text.empty()) continue;
    if (const auto id = pieces_.find(symbol.text)) {
      ids.push_back(*id);
    } else {
      spell_in_bytes(symbol.text, ids);
    }
  }
}

void SpmTokenizer::spell_in_bytes(std::string_view text, std::vector<TokenId>& ids) const {
  for (const char c : text) {
    const TokenId id = byte_ids_[static_cast<unsigned char>(c)];
    if (id >= 0) {
      ids.push_back(id);
    } else if (data_.unk && (ids.empty() || ids.back() != *data_.unk)) {
      ids.push_back(*data_.unk);  // once for a run, as SentencePiece does
    }
  }
}

std::string SpmTokenizer::token_bytes(TokenId id, bool show_special) const {
  if (id < 0 || static_cast<std::size_t>(id) >= data_.tokens.size()) return {};
  const std::string& token = data_.tokens[static_cast<std::size_t>(id)];
  switch (data_.kinds[static_cast<std::size_t>(id)]) {
    case TokenKind::kControl:
    case TokenKind::kUnknown:
      return show_special ? token : std::string();
    case TokenKind::kByte:
      if (const int byte = byte_of_token(token); byte >= 0)
        return std::string(1, static_cast<char>(byte));
      return token;
    case TokenKind::kNormal:
    case TokenKind::kUserDefined:
    case TokenKind::kUnused:
      break;
  }
  return replace_all(token, kSpace, " ");
}

}  // namespace quire
