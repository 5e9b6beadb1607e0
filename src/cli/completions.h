#pragma once
// Shell completions, written from the command line as CLI11 knows it, so that they cannot name an
// option that does not exist or miss one that does.

#include <string>
#include <vector>

#include "cli/command.h"

namespace quire {

/// An option or positional argument.
struct ArgumentInfo {
  std::vector<std::string> names;  // "-n", "--max-tokens"; empty for a positional
  std::string description;
  bool takes_value = false;
  bool is_file = false;
  std::vector<std::string> choices;  // empty: anything
};

struct CommandInfo {
  std::string name;  // empty: the program itself
  std::string description;
  std::vector<ArgumentInfo> options;
  std::vector<ArgumentInfo> positionals;
};

/// The program first, then its subcommands.
std::vector<CommandInfo> describe(const CLI::App& root);

std::string bash_completions(const std::vector<CommandInfo>& commands);
std::string zsh_completions(const std::vector<CommandInfo>& commands);
std::string fish_completions(const std::vector<CommandInfo>& commands);

}  // namespace quire
