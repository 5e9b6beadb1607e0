#include "serve/openai/messages.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "engine/prompt.h"

namespace quire::openai {
namespace {

namespace json = boost::json;
using Words = std::initializer_list<std::string_view>;

std::string read_part(const json::value& value, const std::string& path, const Words& text_types,
                      FirstError& error) {
  const json::object* object = to_object(value, path, error);
  if (object == nullptr) return {};
  FieldReader part(*object, path, error);
  part.require("type");
  const auto type = part.text("type");
  if (!type) return {};
  if (std::find(text_types.begin(), text_types.end(), *type) == text_types.end()) {
    error.set(invalid_field(path, "unsupported_value",
                            "'{}' is of type '{}', but only text is supported.", path,
                            shown(*type)));
    return {};
  }
  part.require("text");
  // What comes back of an earlier answer of the responses endpoint.
  part.ignore("annotations", JsonKind::kArray);
  part.ignore("logprobs", JsonKind::kArray);
  auto text = part.text("text");
  part.done();
  return std::move(text).value_or("");
}

std::string read_content(const json::value& value, const std::string& path, const Words& text_types,
                         FirstError& error) {
  if (value.is_string()) return *to_text(value, path, error);
  if (!value.is_array()) {
    wrong_type(value, path, "a string or an array of text parts", error);
    return {};
  }
  const json::array& parts = value.get_array();
  if (parts.empty())
    error.set(invalid_field(path, "invalid_value", "'{}' must have at least one part.", path));
  std::string out;
  for (std::size_t i = 0; i < parts.size() && !error.failed(); ++i) {
    if (i > 0) out += '\n';
    out += read_part(parts[i], item_path(path, i), text_types, error);
  }
  return out;
}

ToolCall read_tool_call(const json::value& value, const std::string& path, FirstError& error) {
  ToolCall call;
  const json::object* object = to_object(value, path, error);
  if (object == nullptr) return call;
  FieldReader outer(*object, path, error);
  outer.require("id");
  call.id = outer.text("id").value_or("");
  outer.word("type", {"function"});
  outer.require("function");
  if (const json::object* function = outer.object("function")) {
    FieldReader fields(*function, outer.path("function"), error);
    fields.require("name");
    fields.require("arguments");
    call.name = fields.text("name").value_or("");
    call.arguments = fields.text("arguments").value_or("");
    fields.done();
  }
  outer.done();
  return call;
}

void read_tool_fields(FieldReader& fields, const RequestOptions& options, Message& message) {
  constexpr std::string_view kNoTools = "this server has no tools yet";
  if (message.role == "tool") {
    if (!options.supports_constraints) fields.unsupported("role", kNoTools);
    fields.require("tool_call_id");
    message.tool_call_id = fields.text("tool_call_id").value_or("");
  }
  if (message.role != "assistant") return;
  if (const json::array* calls = fields.array("tool_calls")) {
    if (!calls->empty() && !options.supports_constraints)
      fields.unsupported("tool_calls", kNoTools);
    for (std::size_t i = 0; i < calls->size(); ++i) {
      message.tool_calls.push_back(
          read_tool_call((*calls)[i], item_path(fields.path("tool_calls"), i), fields.error()));
    }
  }
  fields.ignore("annotations", JsonKind::kArray);
  fields.refuse("audio", "only text is");
  fields.refuse("refusal", "the model's template has no place for one");
  fields.refuse("function_call", "it is deprecated; use 'tool_calls'");
}

Message read_message(const json::value& value, const std::string& path,
                     const RequestOptions& options, FirstError& error) {
  Message message;
  const json::object* object = to_object(value, path, error);
  if (object == nullptr) return message;
  FieldReader fields(*object, path, error);
  fields.require("role");
  message.role =
      fields.word("role", {"system", "developer", "user", "assistant", "tool"}).value_or("");
  if (error.failed()) return message;
  if (message.role == "developer") message.role = "system";
  read_tool_fields(fields, options, message);
  fields.refuse("name", "the model's template has no place for one");
  // An assistant that called tools need not have said anything.
  if (message.tool_calls.empty()) fields.require("content");
  if (const json::value* content = fields.any("content"))
    message.content = read_content(*content, fields.path("content"), {"text"}, error);
  fields.done();
  return message;
}

Message read_input_item(const json::value& value, const std::string& path, FirstError& error) {
  Message message;
  const json::object* object = to_object(value, path, error);
  if (object == nullptr) return message;
  FieldReader fields(*object, path, error);
  if (auto type = fields.text("type"); type && *type != "message")
    fields.unsupported("type", "only messages are");
  if (error.failed()) return message;
  fields.require("role");
  message.role = fields.word("role", {"system", "developer", "user", "assistant"}).value_or("");
  if (message.role == "developer") message.role = "system";
  fields.require("content");
  if (const json::value* content = fields.any("content")) {
    message.content =
        read_content(*content, fields.path("content"), {"input_text", "output_text"}, error);
  }
  fields.ignore("id", JsonKind::kText);
  fields.ignore("status", JsonKind::kText);
  fields.ignore("phase", JsonKind::kText);
  fields.done();
  return message;
}

template <typename ReadItem>
std::vector<Message> read_list(FieldReader& fields, std::string_view name, const json::array& items,
                               const ReadItem& read_item) {
  const std::string path = fields.path(name);
  std::vector<Message> out;
  if (items.empty() || items.size() > kMaxChatMessages) {
    fields.error().set(invalid_field(path, "invalid_value",
                                     "'{}' has {} messages, but 1 to {} are taken.", path,
                                     items.size(), kMaxChatMessages));
    return out;
  }
  for (std::size_t i = 0; i < items.size() && !fields.error().failed(); ++i)
    out.push_back(read_item(items[i], item_path(path, i)));
  return out;
}

}  // namespace

std::vector<Message> read_messages(FieldReader& fields, std::string_view name,
                                   const RequestOptions& options) {
  fields.require(name);
  const json::array* items = fields.array(name);
  if (items == nullptr) return {};
  return read_list(fields, name, *items, [&](const json::value& item, const std::string& path) {
    return read_message(item, path, options, fields.error());
  });
}

std::vector<Message> read_response_input(FieldReader& fields, std::string_view name) {
  fields.require(name);
  const json::value* input = fields.any(name);
  if (input == nullptr) return {};
  if (input->is_string())
    return {Message{.role = "user",
                    .content = *to_text(*input, fields.path(name), fields.error()),
                    .tool_calls = {},
                    .tool_call_id = {}}};
  if (!input->is_array()) {
    wrong_type(*input, fields.path(name), "a string or an array", fields.error());
    return {};
  }
  return read_list(fields, name, input->get_array(),
                   [&](const json::value& item, const std::string& path) {
                     return read_input_item(item, path, fields.error());
                   });
}

}  // namespace quire::openai
