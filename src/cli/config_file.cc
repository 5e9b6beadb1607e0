#include "cli/config_file.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <sstream>

#include "cli/console.h"

namespace quire {
namespace {

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

Status take(CLI::App& app, const CLI::ConfigItem& item, const std::string& file) {
  if (!item.parents.empty())
    return fail(ErrorCode::kInvalidArgument, "{}: there are no sections such as [{}]", file,
                item.parents.front());
  CLI::Option* option = app.get_option_no_throw("--" + item.name);
  if (option == nullptr || !option->get_configurable())
    return fail(ErrorCode::kInvalidArgument, "{}: there is no option '{}'", file, item.name);
  if (option->count() > 0) return {};  // the command line and the environment count more
  try {
    if (is_flag(*option)) {
      if (item.inputs != std::vector<std::string>{"true"} &&
          item.inputs != std::vector<std::string>{"false"})
        return fail(ErrorCode::kInvalidArgument, "{}: '{}' is true or false", file, item.name);
      if (item.inputs.front() == "false") return {};
    }
    for (const std::string& input : item.inputs) option->add_result(input);
    option->run_callback();
  } catch (const CLI::ParseError& error) {
    return fail(ErrorCode::kInvalidArgument, "{}: {}", file, error.what());
  }
  return {};
}

/// Numbers as they are, texts to the letter. (What has both kinds of quotes cannot be written.)
std::string quoted(const std::string& text) {
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) return text;
  const char quote = text.find('\'') == std::string::npos ? '\'' : '"';
  return quote + text + quote;
}

/// The option's values as TOML.
std::string value_of(const CLI::Option& option) {
  if (is_flag(option)) return option.count() > 0 ? "true" : "false";
  const auto& values = option.results();
  if (values.empty()) return "";
  if (option.get_multi_option_policy() != CLI::MultiOptionPolicy::TakeAll)
    return quoted(values.back());
  std::string out;
  for (const std::string& value : values) out += (out.empty() ? "" : ", ") + quoted(value);
  return "[" + out + "]";
}

}  // namespace

Status read_config(CLI::App& app, const std::string& file) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read_text(file));
  std::istringstream stream(text);
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigBase().from_config(stream);
  } catch (const CLI::Error& error) {
    return fail(ErrorCode::kInvalidArgument, "{}: {}", file, error.what());
  }
  for (const CLI::ConfigItem& item : items) QUIRE_RETURN_IF_ERROR(take(app, item, file));
  return {};
}

std::string write_config(const CLI::App& app) {
  std::string out = "# quire " + app.get_name() + " --config FILE\n";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_configurable() || option->get_lnames().empty()) continue;
    out += fmt::format("\n# {}\n{}{} = {}\n", option->get_description(),
                       option->count() > 0 ? "" : "#", option->get_lnames().front(),
                       value_of(*option));
  }
  return out;
}

}  // namespace quire
