#pragma once

#include <functional>

namespace CLI {
class App;
}  // namespace CLI

namespace quire {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailure = 1,       // the work could not be done
  kExitUsage = 2,         // the command line makes no sense
  kExitInterrupted = 130  // Ctrl-C, as a shell reports it
};

/// A subcommand: its part of the command line, and what to do when it was chosen.
struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;
};

// One file each.
Command add_run_command(CLI::App& root);
Command add_inspect_command(CLI::App& root);
Command add_tokenize_command(CLI::App& root);
Command add_detokenize_command(CLI::App& root);
Command add_eval_command(CLI::App& root);
Command add_bench_command(CLI::App& root);
Command add_serve_command(CLI::App& root);
Command add_completions_command(CLI::App& root);

}  // namespace quire
