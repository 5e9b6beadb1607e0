#pragma once

#include <string>
#include <vector>

#include "serve/openai/json_reader.h"
#include "serve/openai/limits.h"

namespace quire::openai {

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text, as the model wrote it
};

struct Message {
  std::string role;  // "system", "user", "assistant", "tool"; "developer" is read as "system"
  std::string content;
  std::vector<ToolCall> tool_calls;  // of an assistant
  std::string tool_call_id;          // of a tool
};

/// Chat completions' messages: content is text or an array of text parts, which are joined by line
/// feeds. Pictures, sound and files are refused by the part's path.
std::vector<Message> read_messages(FieldReader& fields, std::string_view name,
                                   const RequestOptions& options);

/// The responses endpoint's input: one text of the user's, or messages.
std::vector<Message> read_response_input(FieldReader& fields, std::string_view name);

}  // namespace quire::openai
