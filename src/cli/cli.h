#pragma once

#include <memory>
#include <vector>

#include "cli/command.h"

namespace quire {

/// The whole command line: every subcommand with its options, as CLI11 knows them.
struct CommandLine {
  CommandLine();
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  std::unique_ptr<CLI::App> app;
  std::vector<Command> commands;
};

/// Parses, runs, and returns the exit code of the process.
int cli_main(int argc, char** argv);

}  // namespace quire
