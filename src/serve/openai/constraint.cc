#include "serve/openai/constraint.h"

#include <algorithm>
#include <utility>

namespace quire::openai {
namespace {

namespace json = boost::json;

constexpr std::string_view kNoConstraints = "this server cannot constrain answers yet";

bool is_name(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), allowed);
}

std::string read_name(FieldReader& fields) {
  if (!fields.require("name")) return {};
  auto name = fields.text("name");
  if (name && !is_name(*name))
    fields.error().set(invalid_field(fields.path("name"), "invalid_value",
                                     "Invalid '{}': a name is 1 to 64 of a-z, A-Z, 0-9, _ and -.",
                                     fields.path("name")));
  return name.value_or("");
}

bool fits(FieldReader& fields, std::string_view name, std::size_t size,
          const RequestLimits& limits) {
  if (size > 0 && size <= limits.max_constraint_bytes) return true;
  fields.error().set(invalid_field(fields.path(name), "invalid_value",
                                   "Invalid '{}': it has {} bytes, but 1 to {} are taken.",
                                   fields.path(name), size, limits.max_constraint_bytes));
  return false;
}

std::string read_schema(FieldReader& fields, std::string_view name, const RequestLimits& limits) {
  const json::object* schema = fields.object(name);
  if (schema == nullptr) return {};
  std::string text = json::serialize(*schema);
  return fits(fields, name, text.size(), limits) ? text : std::string();
}

// name, schema, strict, description; what a format of type json_schema consists of.
Constraint read_json_schema(FieldReader& fields, const RequestLimits& limits) {
  Constraint out;
  out.kind = Constraint::Kind::kJsonSchema;
  out.name = read_name(fields);
  fields.require("schema");
  out.source = read_schema(fields, "schema", limits);
  out.strict = fields.boolean("strict").value_or(false);
  fields.ignore("description", JsonKind::kText);  // for people: it is not in the prompt
  return out;
}

ToolDefinition read_tool(const json::value& value, const std::string& path, FirstError& error,
                         const RequestLimits& limits) {
  ToolDefinition tool;
  const json::object* object = to_object(value, path, error);
  if (object == nullptr) return tool;
  FieldReader outer(*object, path, error);
  outer.require("type");
  if (auto type = outer.text("type"); type && *type != "function")
    outer.unsupported("type", "only tools of type 'function' are");
  if (error.failed()) return tool;
  outer.require("function");
  if (const json::object* function = outer.object("function")) {
    FieldReader fields(*function, outer.path("function"), error);
    tool.name = read_name(fields);
    tool.description = fields.text("description").value_or("");
    tool.parameters = read_schema(fields, "parameters", limits);
    tool.strict = fields.boolean("strict").value_or(false);
    fields.done();
  }
  outer.done();
  return tool;
}

ToolChoice read_tool_choice(FieldReader& fields) {
  ToolChoice choice;
  const json::value* value = fields.any("tool_choice");
  if (value == nullptr) return choice;
  const std::string path = fields.path("tool_choice");
  if (value->is_string()) {
    const auto word = fields.word("tool_choice", {"none", "auto", "required"});
    if (word == "none") choice.kind = ToolChoice::Kind::kNone;
    if (word == "required") choice.kind = ToolChoice::Kind::kRequired;
    return choice;
  }
  if (!value->is_object()) {
    wrong_type(*value, path, "a string or an object", fields.error());
    return choice;
  }
  FieldReader outer(value->get_object(), path, fields.error());
  outer.require("type");
  if (auto type = outer.text("type"); type && *type != "function")
    outer.unsupported("type", "only a function can be chosen");
  if (fields.error().failed()) return choice;
  outer.require("function");
  if (const json::object* function = outer.object("function")) {
    FieldReader inner(*function, outer.path("function"), fields.error());
    choice.kind = ToolChoice::Kind::kFunction;
    choice.function = read_name(inner);
    inner.done();
  }
  outer.done();
  return choice;
}

void check_tools(FieldReader& fields, const StructureFields& out) {
  const auto named = [&](std::string_view name) {
    return std::count_if(out.tools.begin(), out.tools.end(),
                         [&](const ToolDefinition& tool) { return tool.name == name; });
  };
  for (const ToolDefinition& tool : out.tools) {
    if (named(tool.name) > 1)
      fields.unsupported("tools", fmt::format("two functions are called '{}'", tool.name));
  }
  const auto kind = out.tool_choice.kind;
  if (kind == ToolChoice::Kind::kRequired && out.tools.empty())
    fields.unsupported("tool_choice", "there are no tools");
  if (kind == ToolChoice::Kind::kFunction && named(out.tool_choice.function) == 0)
    fields.unsupported("tool_choice", "no tool has that name");
}

}  // namespace

Constraint read_format(FieldReader& fields, std::string_view name, FormatStyle style,
                       const RequestOptions& options) {
  const json::object* object = fields.object(name);
  if (object == nullptr) return {};
  FieldReader format(*object, fields.path(name), fields.error());
  format.require("type");
  const auto type = format.word("type", {"text", "json_object", "json_schema"});
  Constraint constraint;
  if (type == "json_object") constraint.kind = Constraint::Kind::kJsonObject;
  if (type == "json_schema" && style == FormatStyle::kResponses)
    constraint = read_json_schema(format, options.limits);
  if (type == "json_schema" && style == FormatStyle::kChat) {
    format.require("json_schema");
    if (const json::object* schema = format.object("json_schema")) {
      FieldReader inner(*schema, format.path("json_schema"), fields.error());
      constraint = read_json_schema(inner, options.limits);
      inner.done();
    }
  }
  format.done();
  if (constraint.kind != Constraint::Kind::kNone && !options.supports_constraints)
    fields.unsupported(name, kNoConstraints);
  return constraint;
}

void read_constraint_extensions(FieldReader& fields, const RequestOptions& options,
                                Constraint& constraint) {
  const auto take = [&](std::string_view name, Constraint::Kind kind) {
    auto text = fields.text(name);
    if (!text || !fits(fields, name, text->size(), options.limits)) return;
    if (!options.supports_constraints) fields.unsupported(name, kNoConstraints);
    if (constraint.kind != Constraint::Kind::kNone)
      fields.unsupported(name, "the answer is constrained already");
    constraint.kind = kind;
    constraint.source = std::move(*text);
  };
  take("regex", Constraint::Kind::kRegex);
  take("grammar", Constraint::Kind::kLark);
}

void read_tools(FieldReader& fields, const RequestOptions& options, StructureFields& out) {
  fields.refuse("functions", "it is deprecated; use 'tools'");
  fields.refuse("function_call", "it is deprecated; use 'tool_choice'");
  if (const json::array* tools = fields.array("tools")) {
    if (tools->size() > options.limits.max_tools)
      return fields.unsupported("tools", fmt::format("at most {} are", options.limits.max_tools));
    for (std::size_t i = 0; i < tools->size(); ++i) {
      out.tools.push_back(read_tool((*tools)[i], item_path(fields.path("tools"), i), fields.error(),
                                    options.limits));
    }
    if (!out.tools.empty() && !options.supports_constraints)
      fields.unsupported("tools", kNoConstraints);
  }
  out.tool_choice = read_tool_choice(fields);
  out.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
  check_tools(fields, out);
}

}  // namespace quire::openai
