#include "engine/prompt.h"

#include <string>
#include <string_view>
#include <utility>

#include "engine/opaque_text.h"
#include "text/utf8.h"

namespace quire {
namespace {

/// One rendering, and which bytes of it the template wrote.
struct Rendering {
  std::string text;
  std::vector<bool> written;
};

/// Whether a special token's text is anywhere in what the template did not write alone.
bool reaches_into_messages(const TextMatcher& control, const Rendering& rendering) {
  const auto matches = control.all(rendering.text);
  std::size_t unwritten = rendering.text.size();  // the next such byte
  for (std::size_t i = matches.size(); i-- > 0;) {
    if (!rendering.written[i]) unwritten = i;
    if (unwritten < i + matches[i].length) return true;
  }
  return false;
}

/// Special tokens are only those that lie in what the template wrote; the rest is plain text.
Result<std::vector<TokenId>> encode_in_parts(const Tokenizer& tokenizer,
                                             const Rendering& rendering) {
  const std::string_view text = rendering.text;
  std::vector<TokenId> ids;
  std::size_t done = 0;
  const auto encode_until = [&](std::size_t end) -> Status {
    if (end == done) return {};
    QUIRE_ASSIGN_OR_RETURN(const auto plain,
                           tokenizer.encode(text.substr(done, end - done), ParseSpecial::kNo));
    ids.insert(ids.end(), plain.begin(), plain.end());
    return {};
  };
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin + 1;
    while (end < text.size() && rendering.written[end] == rendering.written[begin]) ++end;
    if (rendering.written[begin]) {
      for (const auto& [at, match] :
           tokenizer.control_tokens().split(text.substr(begin, end - begin))) {
        QUIRE_RETURN_IF_ERROR(encode_until(begin + at));
        ids.push_back(match.id);
        done = begin + at + match.length;
      }
    }
    begin = end;
  }
  QUIRE_RETURN_IF_ERROR(encode_until(text.size()));
  return ids;
}

std::vector<TokenId> control_ids(const TextMatcher& control, std::string_view text) {
  std::vector<TokenId> ids;
  for (const auto& [begin, match] : control.split(text)) ids.push_back(match.id);
  return ids;
}

/// The template's string constants, but for those that hold a special token: text of a message that
/// the template may recognise.
TextMatcher readable_constants(const TextMatcher& control, const ChatTemplate& chat) {
  std::vector<TextMatcher::Entry> entries;
  for (const std::string& constant : chat.constants()) {
    if (!control.occurs_in(constant)) entries.push_back({constant, 0});
  }
  return TextMatcher(std::move(entries));
}

/// What of `rendered` the template wrote. It is rendered again with contents that it cannot read;
/// one that looks for its own words in a message ("</think>") comes to other results then, so it
/// may read those in a third rendering, as long as that has the special tokens of the second.
Result<std::vector<bool>> find_written(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                       std::span<const ChatMessage> messages,
                                       bool add_generation_prompt, std::string_view rendered) {
  const OpaqueText opaque(tokenizer.data());
  const TextMatcher& control = tokenizer.control_tokens();
  const auto render = [&](const TextMatcher& readable) {
    std::vector<ChatMessage> marked;
    for (const auto& [role, content] : messages) {
      marked.push_back({role, opaque.mark(content, readable, control)});
    }
    return chat.render(marked, add_generation_prompt);
  };
  const auto unread = render(TextMatcher());
  if (!unread) {
    return fail(unread.error().code,
                "{} (with contents it cannot read, to tell its special tokens from the messages')",
                unread.error().message);
  }
  if (auto written = opaque.written_by_template(rendered, *unread)) return std::move(*written);
  const auto read = render(readable_constants(control, chat));
  if (read && control_ids(control, *read) == control_ids(control, *unread)) {
    if (auto written = opaque.written_by_template(rendered, *read)) return std::move(*written);
  }
  return fail(ErrorCode::kUnsupported,
              "the chat template rewrites a message in a way that leaves it unclear which special "
              "tokens are its own and which are the message's");
}

/// The messages as UTF-8.
Result<std::vector<ChatMessage>> checked(const TextMatcher& control,
                                         std::span<const ChatMessage> messages) {
  if (messages.size() > kMaxChatMessages) {
    return fail(ErrorCode::kInvalidArgument,
                "the conversation has {} messages, more than the {} that are rendered",
                messages.size(), kMaxChatMessages);
  }
  std::vector<ChatMessage> valid;
  std::size_t size = 0;
  for (const auto& [role, content] : messages) {
    if (control.occurs_in(role)) {
      return fail(ErrorCode::kInvalidArgument,
                  "the role \"{}\" contains the text of a special token", role);
    }
    valid.push_back({role, replace_invalid_utf8(content)});
    size += role.size() + valid.back().content.size();
    if (size > kMaxChatBytes) {
      return fail(ErrorCode::kInvalidArgument,
                  "the conversation has more than the {} bytes of text that are rendered",
                  kMaxChatBytes);
    }
  }
  return valid;
}

}  // namespace

Status check_text_length(const Tokenizer& tokenizer, std::string_view text, std::size_t context) {
  if (text.size() / tokenizer.longest_token() <= context) return {};
  return fail(ErrorCode::kInvalidArgument,
              "the text has {} bytes, more than the {} tokens of the context can stand for, which "
              "have at most {} bytes each",
              text.size(), context, tokenizer.longest_token());
}

Result<std::vector<TokenId>> encode_plain(const Tokenizer& tokenizer, std::string_view text,
                                          ParseSpecial special) {
  QUIRE_ASSIGN_OR_RETURN(auto ids, tokenizer.encode(text, special));
  return tokenizer.with_bos(std::move(ids));
}

Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                         std::span<const ChatMessage> messages,
                                         bool add_generation_prompt) {
  const TextMatcher& control = tokenizer.control_tokens();
  QUIRE_ASSIGN_OR_RETURN(const auto valid, checked(control, messages));
  Rendering rendering;
  QUIRE_ASSIGN_OR_RETURN(rendering.text, chat.render(valid, add_generation_prompt));
  if (!control.occurs_in(rendering.text)) {
    return encode_plain(tokenizer, rendering.text, ParseSpecial::kNo);
  }
  QUIRE_ASSIGN_OR_RETURN(rendering.written, find_written(tokenizer, chat, valid,
                                                         add_generation_prompt, rendering.text));
  // The usual case is one encode of the whole text, as the model was trained.
  if (!reaches_into_messages(control, rendering)) {
    return encode_plain(tokenizer, rendering.text, ParseSpecial::kYes);
  }
  QUIRE_ASSIGN_OR_RETURN(auto ids, encode_in_parts(tokenizer, rendering));
  return tokenizer.with_bos(std::move(ids));
}

}  // namespace quire
