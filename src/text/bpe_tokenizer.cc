#include "text/bpe_tokenizer.h"

#include <array>

#include "text/pre_tokenizer.h"
#include "text/utf8.h"

namespace quire {
namespace {

// GPT-2's alphabet stands for bytes by characters below U+0144: the printable ones of Latin-1 for
// themselves, the 68 others by U+0100 and on.
constexpr std::size_t kAlphabetEnd = 0x144;

constexpr std::array<std::int16_t, kAlphabetEnd> make_byte_of_character() {
  std::array<std::int16_t, kAlphabetEnd> byte_of{};
  byte_of.fill(-1);
  std::size_t next = 0x100;
  for (std::int16_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    byte_of[printable ? static_cast<std::size_t>(byte) : next++] = byte;
  }
  return byte_of;
}

constexpr auto kByteOfCharacter = make_byte_of_character();

/// The byte a character of one or two bytes stands for, or -1.
int byte_of_character(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  std::size_t code_point = lead;
  if (character.size() == 2) {
    code_point = (lead & 0x1Fu) << 6 | (static_cast<unsigned char>(character[1]) & 0x3Fu);
  }
  if (character.size() > 2 || code_point >= kAlphabetEnd) return -1;
  return kByteOfCharacter[code_point];
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::create(TokenizerData data,
                                                        std::span<const std::string_view> merges) {
  QUIRE_ASSIGN_OR_RETURN(const PreTokenizer* pre, find_pre_tokenizer(data.pre));
  static_assert(sizeof(TokenKind) == 1);
  const quire_bpe_spec spec = {
      .tokens = bridge::borrow_all(data.tokens),
      .kinds = reinterpret_cast<const std::uint8_t*>(data.kinds.data()),
      .merges = bridge::borrow_all(merges),
      .normalizer = bridge::borrow(pre->normalizer),
      .pre_tokenizer = bridge::borrow(pre->pre_tokenizer),
      .ignore_merges = pre->ignore_merges,
  };
  quire_bpe* raw = nullptr;
  bridge::Buffer error;
  if (!quire_bpe_new(&spec, &raw, error.out())) {
    return fail(ErrorCode::kInvalidData, "the tokenizer cannot be built: {}", error.str());
  }
  bridge::BpeHandle bpe(raw);
  return std::unique_ptr<Tokenizer>(new BpeTokenizer(std::move(data), std::move(bpe)));
}

BpeTokenizer::BpeTokenizer(TokenizerData data, bridge::BpeHandle bpe)
    : Tokenizer(std::move(data)), bpe_(std::move(bpe)) {
  std::vector<TextMatcher::Entry> added;
  for (std::size_t i = 0; i < data_.tokens.size(); ++i) {
    if (is_special(data_.kinds[i]) || data_.kinds[i] == TokenKind::kUserDefined) {
      added.push_back({data_.tokens[i], static_cast<TokenId>(i)});
    }
  }
  added_ = TextMatcher(std::move(added));
}

Result<std::vector<TokenId>> BpeTokenizer::encode(std::string_view text,
                                                  ParseSpecial special) const {
  std::vector<TokenId> ids;
  std::size_t done = 0;
  for (const auto& [begin, match] : added_.split(text)) {
    // As in Hugging Face's library, a special token that is to be plain text still hides a
    // user-defined one inside it.
    const TokenKind kind = data_.kinds[static_cast<std::size_t>(match.id)];
    if (is_special(kind) && special == ParseSpecial::kNo) continue;
    QUIRE_RETURN_IF_ERROR(encode_plain(text.substr(done, begin - done), ids));
    ids.push_back(match.id);
    done = begin + match.length;
  }
  QUIRE_RETURN_IF_ERROR(encode_plain(text.substr(done), ids));
  return ids;
}

Status BpeTokenizer::encode_plain(std::string_view text, std::vector<TokenId>& ids) const {
  if (text.empty()) return {};
  bridge::Ids plain;
  bridge::Buffer error;
  if (!quire_bpe_encode(bpe_.get(), bridge::borrow(text), plain.out(), error.out())) {
    return fail(ErrorCode::kInvalidData, "the text cannot be encoded: {}", error.str());
  }
  ids.insert(ids.end(), plain.begin(), plain.end());
  return {};
}

std::string BpeTokenizer::token_bytes(TokenId id, bool show_special) const {
  if (id < 0 || static_cast<std::size_t>(id) >= data_.tokens.size()) return {};
  const std::string& token = data_.tokens[static_cast<std::size_t>(id)];
  const TokenKind kind = data_.kinds[static_cast<std::size_t>(id)];
  if (is_special(kind)) return show_special ? token : std::string();
  if (kind == TokenKind::kUserDefined) return token;

  std::string out;
  for (std::string_view rest = token; !rest.empty();) {
    const std::string_view character = rest.substr(0, utf8_step(rest).length);
    const int byte = byte_of_character(character);
    if (byte >= 0) {
      out.push_back(static_cast<char>(byte));
    } else {
      out.append(character);  // not of the alphabet: it stands for itself
    }
    rest.remove_prefix(character.size());
  }
  return out;
}

}  // namespace quire
