#pragma once
// What an answer must look like, as requested. What enforces it knows nothing of JSON requests.

#include <cstdint>
#include <string>
#include <vector>

#include "serve/openai/json_reader.h"
#include "serve/openai/limits.h"

namespace quire::openai {

struct Constraint {
  enum class Kind : std::uint8_t { kNone, kJsonObject, kJsonSchema, kRegex, kLark };
  Kind kind = Kind::kNone;
  std::string source;   // a JSON schema's text, a pattern or a grammar
  std::string name;     // of a schema
  bool strict = false;  // of a schema; it is followed either way
};

struct ToolDefinition {
  std::string name;
  std::string description;
  std::string parameters;  // a JSON schema's text; empty: no parameters
  bool strict = false;
};

struct ToolChoice {
  enum class Kind : std::uint8_t { kNone, kAuto, kRequired, kFunction };
  Kind kind = Kind::kAuto;  // without tools there is nothing to choose
  std::string function;     // of kFunction
};

struct StructureFields {
  Constraint constraint;
  std::vector<ToolDefinition> tools;
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;
};

/// `format` is an object with a "type": text, json_object or json_schema. Chat completions have the
/// schema in an object of its own, responses beside the type.
enum class FormatStyle : std::uint8_t { kChat, kResponses };
Constraint read_format(FieldReader& fields, std::string_view name, FormatStyle style,
                       const RequestOptions& options);

/// "regex" and "grammar" (Lark), extensions. At most one constraint in a request.
void read_constraint_extensions(FieldReader& fields, const RequestOptions& options,
                                Constraint& constraint);

/// tools, tool_choice, parallel_tool_calls as chat completions have them; the deprecated functions
/// and function_call are refused.
void read_tools(FieldReader& fields, const RequestOptions& options, StructureFields& out);

}  // namespace quire::openai
