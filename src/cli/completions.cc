#include "cli/completions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <string_view>
#include <utility>

namespace quire {
namespace {

// The values of choices_only(), from the "a|b" it shows in the help.
std::vector<std::string> choices_of(const std::string& type_name) {
  if (type_name.find('|') == std::string::npos) return {};
  return CLI::detail::split(type_name, '|');
}

ArgumentInfo describe_argument(const CLI::Option& option) {
  ArgumentInfo info;
  for (const auto& name : option.get_snames()) info.names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) info.names.push_back("--" + name);
  info.description = option.get_description();
  info.takes_value = option.get_items_expected_max() > 0;
  info.is_file = option.get_type_name() == "FILE";
  info.choices = choices_of(option.get_type_name());
  return info;
}

CommandInfo describe_command(const CLI::App& app) {
  CommandInfo info{app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    auto& list = option->get_positional() ? info.positionals : info.options;
    list.push_back(describe_argument(*option));
  }
  return info;
}

std::string names_of(const CommandInfo& command) {
  std::string out;
  for (const auto& option : command.options) {
    for (const auto& name : option.names) out += (out.empty() ? "" : " ") + name;
  }
  return out;
}

// For text between single quotes in any of the three shells.
std::string shell_quoted(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out;
}

std::string zsh_escaped(std::string_view text) {
  std::string out;
  for (const char c : shell_quoted(text)) {
    if (c == '[' || c == ']' || c == ':') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const ArgumentInfo& argument) {
  if (!argument.choices.empty()) return fmt::format("({})", fmt::join(argument.choices, " "));
  return argument.is_file ? "_files" : " ";
}

}  // namespace

std::vector<CommandInfo> describe(const CLI::App& root) {
  std::vector<CommandInfo> commands = {describe_command(root)};
  commands.front().name.clear();
  for (const CLI::App* sub : root.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(describe_command(*sub));
  }
  return commands;
}

std::string bash_completions(const std::vector<CommandInfo>& commands) {
  std::string names, options, values;
  for (const auto& command : commands) {
    if (!command.name.empty()) names += (names.empty() ? "" : " ") + command.name;
    options += fmt::format("    '{}') options='{}' ;;\n", command.name, names_of(command));
    for (const auto& option : command.options) {
      if (!option.takes_value) continue;
      std::string patterns;
      for (const auto& name : option.names) {
        patterns += fmt::format("{}'{} {}'", patterns.empty() ? "" : "|", command.name, name);
      }
      // A value that nobody can guess is completed to nothing.
      std::string action = ":";
      if (option.is_file) action = "COMPREPLY=($(compgen -f -- \"$cur\"))";
      if (!option.choices.empty()) {
        action = fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$cur\"))",
                             fmt::join(option.choices, " "));
      }
      values += fmt::format("    {}) {}; return ;;\n", patterns, action);
    }
  }
  std::string positionals;
  for (const auto& command : commands) {
    for (const auto& argument : command.positionals) {
      if (argument.choices.empty()) continue;
      positionals += fmt::format("    '{}') COMPREPLY=($(compgen -W '{}' -- \"$cur\")) ;;\n",
                                 command.name, fmt::join(argument.choices, " "));
    }
  }
  return fmt::format(R"(# bash completion for quire; made by `quire completions bash`
_quire() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command= options=
  ((COMP_CWORD > 1)) && command=${{COMP_WORDS[1]}}
  COMPREPLY=()
  case "$command $prev" in
{})"
                     R"(  esac
  case "$command" in
{})"
                     R"(  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
    return
  fi
  case "$command" in
    '') COMPREPLY=($(compgen -W '{}' -- "$cur")) ;;
{})"
                     R"(    *) COMPREPLY=($(compgen -f -- "$cur")) ;;
  esac
}}
complete -o filenames -F _quire quire
)",
                     values, options, names, positionals);
}

std::string zsh_completions(const std::vector<CommandInfo>& commands) {
  std::string names, cases;
  for (const auto& command : commands) {
    std::string specs;
    for (const auto& option : command.options) {
      for (const auto& name : option.names) {
        specs +=
            fmt::format(" \\\n        '*{}[{}]{}'", name, zsh_escaped(option.description),
                        option.takes_value ? fmt::format(":value:{}", zsh_action(option)) : "");
      }
    }
    for (const auto& argument : command.positionals) {
      specs += fmt::format(" \\\n        ':{}:{}'", argument.is_file ? "file" : "value",
                           zsh_action(argument));
    }
    if (command.name.empty()) {
      cases += fmt::format("    '') _arguments{} ;;\n", specs);
      continue;
    }
    names += fmt::format("    '{}:{}'\n", command.name, zsh_escaped(command.description));
    cases += fmt::format("    {}) _arguments{} ;;\n", command.name, specs);
  }
  return fmt::format(R"(#compdef quire
# zsh completion for quire; made by `quire completions zsh`
_quire() {{
  local -a commands=(
{})"
                     R"(  )
  if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then
    _describe command commands
    return
  fi
  local command=
  ((CURRENT > 2)) && {{ command=$words[2]; shift words; ((CURRENT--)); }}
  case $command in
{})"
                     R"(  esac
}}
if [[ $funcstack[1] == _quire ]]; then _quire "$@"; else compdef _quire quire; fi
)",
                     names, cases);
}

std::string fish_completions(const std::vector<CommandInfo>& commands) {
  std::string out =
      "# fish completion for quire; made by `quire completions fish`\n"
      "complete -c quire -f\n";
  for (const auto& command : commands) {
    const std::string condition = command.name.empty()
                                      ? "__fish_use_subcommand"
                                      : fmt::format("__fish_seen_subcommand_from {}", command.name);
    if (!command.name.empty()) {
      out += fmt::format("complete -c quire -n __fish_use_subcommand -a {} -d '{}'\n", command.name,
                         shell_quoted(command.description));
    }
    for (const auto& option : command.options) {
      out += fmt::format("complete -c quire -n '{}'", condition);
      for (const auto& name : option.names) {
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (!option.choices.empty()) {
        out += fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
      } else if (option.takes_value) {
        out += option.is_file ? " -r -F" : " -x";
      }
      out += fmt::format(" -d '{}'\n", shell_quoted(option.description));
    }
    for (const auto& argument : command.positionals) {
      out += argument.choices.empty() ? fmt::format("complete -c quire -n '{}' -F\n", condition)
                                      : fmt::format("complete -c quire -n '{}' -a '{}'\n",
                                                    condition, fmt::join(argument.choices, " "));
    }
  }
  return out;
}

}  // namespace quire
