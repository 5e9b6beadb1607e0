#include "engine/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace quire {
namespace {

// The texts that encode() takes for special tokens with kYes and for plain text with kNo.
class ControlTokens {
 public:
  explicit ControlTokens(const TokenizerData& data) {
    for (std::size_t i = 0; i < data.tokens.size() && i < data.kinds.size(); ++i) {
      const bool is_control =
          data.kinds[i] == TokenKind::kControl || data.kinds[i] == TokenKind::kUnknown;
      const std::string_view text = data.tokens[i];
      if (!is_control || text.empty()) continue;
      ids_.emplace(text, static_cast<TokenId>(i));
      auto& lengths = lengths_[static_cast<unsigned char>(text[0])];
      if (std::find(lengths.begin(), lengths.end(), text.size()) == lengths.end()) {
        lengths.push_back(text.size());
      }
    }
    for (auto& lengths : lengths_) std::sort(lengths.rbegin(), lengths.rend());
  }

  struct Hit {
    std::size_t begin = 0;
    std::size_t length = 0;  // 0: none
    TokenId id = 0;
  };

  // The first one at or after `from`; of those at one place the longest.
  Hit find(std::string_view text, std::size_t from) const {
    for (std::size_t i = from; i < text.size(); ++i) {
      for (const std::size_t n : lengths_[static_cast<unsigned char>(text[i])]) {
        if (n > text.size() - i) continue;
        if (const auto it = ids_.find(text.substr(i, n)); it != ids_.end()) {
          return {i, n, it->second};
        }
      }
    }
    return {text.size(), 0, 0};
  }

 private:
  std::unordered_map<std::string_view, TokenId> ids_;
  std::array<std::vector<std::size_t>, 256> lengths_;  // by first byte, longest first
};

// A private-use character that occurs in none of the messages.
Result<std::string> choose_mark(std::span<const ChatMessage> messages) {
  for (unsigned offset = 0; offset < 0x1900; ++offset) {  // U+E000 … U+F8FF
    const unsigned c = 0xE000 + offset;
    std::string mark = {static_cast<char>(0xE0 | (c >> 12)),
                        static_cast<char>(0x80 | ((c >> 6) & 0x3F)),
                        static_cast<char>(0x80 | (c & 0x3F))};
    const bool used = std::any_of(messages.begin(), messages.end(), [&](const ChatMessage& m) {
      return m.content.find(mark) != std::string::npos;
    });
    if (!used) return mark;
  }
  return fail(ErrorCode::kInvalidArgument,
              "the messages use every private-use character and special-token text as well");
}

// Messages in which every text that looks like a special token is replaced by mark, number, mark:
// nothing that a template trims, and no letters whose case it could change.
struct Masked {
  std::vector<ChatMessage> messages;
  std::vector<std::string> hidden;
  std::string mark;

  std::string placeholder(std::size_t i) const { return fmt::format("{}{}{}", mark, i, mark); }
};

Result<Masked> mask(const ControlTokens& control, std::span<const ChatMessage> messages) {
  Masked masked;
  QUIRE_ASSIGN_OR_RETURN(masked.mark, choose_mark(messages));
  for (const auto& message : messages) {
    std::string content;
    std::size_t done = 0;
    while (true) {
      const auto hit = control.find(message.content, done);
      content += message.content.substr(done, hit.begin - done);
      if (hit.length == 0) break;
      content += masked.placeholder(masked.hidden.size());
      masked.hidden.push_back(message.content.substr(hit.begin, hit.length));
      done = hit.begin + hit.length;
    }
    masked.messages.push_back({message.role, std::move(content)});
  }
  return masked;
}

// Puts the hidden texts back.
Result<std::string> unmask(const Masked& masked, std::string_view text) {
  std::string out;
  std::size_t done = 0;
  while (true) {
    const std::size_t begin = text.find(masked.mark, done);
    out += text.substr(done, begin - done);
    if (begin == std::string_view::npos) return out;
    const std::size_t digits = begin + masked.mark.size();
    const std::size_t end = text.find(masked.mark, digits);
    std::size_t i = 0;
    bool whole = end != std::string_view::npos && end > digits && end - digits < 10;
    for (std::size_t at = digits; whole && at < end; ++at) {
      whole = text[at] >= '0' && text[at] <= '9';
      i = i * 10 + static_cast<std::size_t>(text[at] - '0');
    }
    if (!whole || i >= masked.hidden.size()) {
      return fail(ErrorCode::kUnsupported,
                  "a message contains the text of a special token, and the chat template rewrites "
                  "messages in a way that leaves it unclear where that text ends up");
    }
    out += masked.hidden[i];
    done = end + masked.mark.size();
  }
}

// Special tokens are only those the template wrote; what lies between them is plain text.
Result<std::vector<TokenId>> encode_masked(const Tokenizer& tokenizer, const ControlTokens& control,
                                           const Masked& masked, std::string_view rendered) {
  std::vector<TokenId> ids;
  std::size_t done = 0;
  while (done < rendered.size()) {
    const auto hit = control.find(rendered, done);
    if (hit.begin > done) {
      QUIRE_ASSIGN_OR_RETURN(const std::string text,
                             unmask(masked, rendered.substr(done, hit.begin - done)));
      QUIRE_ASSIGN_OR_RETURN(const auto plain, tokenizer.encode(text, ParseSpecial::kNo));
      ids.insert(ids.end(), plain.begin(), plain.end());
    }
    if (hit.length > 0) ids.push_back(hit.id);
    done = hit.begin + hit.length;
  }
  return ids;
}

}  // namespace

Result<std::vector<TokenId>> encode_plain(const Tokenizer& tokenizer, std::string_view text,
                                          ParseSpecial special) {
  QUIRE_ASSIGN_OR_RETURN(auto ids, tokenizer.encode(text, special));
  return tokenizer.with_bos(std::move(ids));
}

Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                         std::span<const ChatMessage> messages,
                                         bool add_generation_prompt) {
  const ControlTokens control(tokenizer.data());
  bool any = false;
  for (const auto& message : messages) {
    if (control.find(message.role, 0).length > 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "the role \"{}\" contains the text of a special token", message.role);
    }
    any = any || control.find(message.content, 0).length > 0;
  }
  // The usual case is one encode of the whole text, as the model was trained.
  if (!any) {
    QUIRE_ASSIGN_OR_RETURN(const auto text, chat.render(messages, add_generation_prompt));
    return encode_plain(tokenizer, text, ParseSpecial::kYes);
  }
  QUIRE_ASSIGN_OR_RETURN(const auto masked, mask(control, messages));
  QUIRE_ASSIGN_OR_RETURN(const auto text, chat.render(masked.messages, add_generation_prompt));
  QUIRE_ASSIGN_OR_RETURN(auto ids, encode_masked(tokenizer, control, masked, text));
  return tokenizer.with_bos(std::move(ids));
}

}  // namespace quire
