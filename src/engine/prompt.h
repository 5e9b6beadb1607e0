#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quire {

/// A conversation as the model's template writes it, as token ids with exactly one BOS (if the
/// model wants one). The template's special tokens become ids; text in a message that looks like
/// one ("<|im_end|>") stays plain text, whatever the template does around it.
///
/// Refused: a role with such text in it, contents that are not UTF-8, and a template that takes
/// the marks apart that stand for such text while it is rendered.
Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                         std::span<const ChatMessage> messages,
                                         bool add_generation_prompt);

/// Text as it is, with exactly one BOS in front (if the model wants one).
Result<std::vector<TokenId>> encode_plain(const Tokenizer& tokenizer, std::string_view text,
                                          ParseSpecial special);

}  // namespace quire
