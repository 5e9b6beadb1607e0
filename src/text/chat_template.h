#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", "tool"
  std::string content;
};

/// The Jinja template a model carries (tokenizer.chat_template), hostile until checked: rendering
/// has fuel, recursion and output limits.
class ChatTemplate {
 public:
  static Result<ChatTemplate> parse(std::string_view source, std::string_view bos_token,
                                    std::string_view eos_token);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  Result<std::string> render(std::span<const ChatMessage> messages,
                             bool add_generation_prompt) const;

  /// As above with everything transformers' apply_chat_template passes: messages, tools, documents
  /// and extra variables as one JSON object.
  Result<std::string> render_json(std::string_view context_json) const;

  /// The string constants in its source: what it can look for in a message.
  const std::vector<std::string>& constants() const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
