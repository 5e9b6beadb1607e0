#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quire {

/// The longest conversation that is rendered, in bytes of roles and contents (a million tokens are
/// about half of it) and in messages, which take some 50 to 200 of a template's million
/// instructions.
inline constexpr std::size_t kMaxChatBytes = std::size_t{8} << 20;
inline constexpr std::size_t kMaxChatMessages = 20'000;

/// A conversation as the model's template writes it, as token ids with exactly one BOS (if the
/// model wants one). Special tokens are those that the template writes itself, whatever the
/// messages say; text of a message stays plain text, also where it becomes the text of a special
/// token only in the template's hands or beside the template's own.
///
/// Refused: a longer conversation than that, a role with the text of a special token in it, and a
/// template that rewrites a message so that it cannot be told which special tokens are its own.
Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                         std::span<const ChatMessage> messages,
                                         bool add_generation_prompt);

/// Refuses a text that has more bytes than `context` tokens of the vocabulary can stand for, before
/// anything of its size is computed. (Unless most of it is unknown to a model without byte tokens.)
Status check_text_length(const Tokenizer& tokenizer, std::string_view text, std::size_t context);

/// Text as it is, with exactly one BOS in front (if the model wants one).
Result<std::vector<TokenId>> encode_plain(const Tokenizer& tokenizer, std::string_view text,
                                          ParseSpecial special);

}  // namespace quire
