#include "cli/cli.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "cli/console.h"
#include "quire_bridge.h"

namespace quire {
namespace {

constexpr const char* kExamples = R"(Examples:
  quire run model.gguf -p "Why is the sky blue?"     stream an answer
  quire run model.gguf --chat                        hold a conversation
  quire serve model.gguf                             serve OpenAI's protocol
  quire inspect model.gguf                           what is in the file
  echo -n "Hello" | quire tokenize model.gguf        text to token ids
  quire eval model.gguf --text book.txt              perplexity on a text
  quire bench model.gguf                             tokens per second
  source <(quire completions bash)                   complete with the Tab key

`quire COMMAND --help` explains a command. Exit codes: 0 done, 1 failed, 2 wrong
usage, 130 interrupted.)";

constexpr std::string_view kOutOfMemory = "quire: out of memory\n";

/// Ends the program from where nothing can be allocated or unwound.
[[noreturn]] void end_with(std::string_view message) {
  static std::atomic_flag said = ATOMIC_FLAG_INIT;
  while (said.test_and_set()) ::pause();  // several threads may meet it; the first ends them all
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
  ::_exit(kExitFailure);
}

// Models are mapped, so a file that is cut short under us, or a disk that fails, is this signal.
void on_lost_file(int) {
  end_with("quire: a model file was cut short or could not be read while it was in use\n");
}

void on_out_of_memory() { end_with(kOutOfMemory); }

// CLI11 leaves two empty lines between groups of options; one is enough.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    for (std::size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;)
      text.erase(at, 1);
    return text;
  }
};

// Tells where to read on, for the subcommand that was meant.
std::string help_hint(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? "quire --help" : "quire " + chosen.front()->get_name() + " --help";
}

int dispatch(CommandLine& line, int argc, char** argv) {
  try {
    line.app->parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    std::ostringstream text;
    const int exit_code = line.app->exit(request, text, text);
    Output out;
    out.write(text.str());
    return std::max(exit_code, out.finish());
  } catch (const CLI::ParseError& error) {
    const std::string first = argv[1];
    if (line.app->get_subcommands().empty() && !first.starts_with('-')) {
      return usage_error("there is no command '{}'\nTry 'quire --help'.", first);
    }
    return usage_error("{}\nTry '{}'.", error.what(), help_hint(*line.app));
  }
  for (const auto& command : line.commands) {
    if (command.app->parsed()) return command.run();
  }
  return kExitUsage;
}

}  // namespace

CommandLine::CommandLine()
    : app(std::make_unique<CLI::App>(
          "quire runs large language models on the CPU, from a paged KV cache.", "quire")) {
  app->set_version_flag("--version", "quire " QUIRE_VERSION, "Print the version and exit");
  app->set_help_flag("-h,--help", "Print this help and exit");
  app->require_subcommand(1);
  // Of an option given twice the last counts, so that defaults in a script can be overridden.
  app->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app->formatter(std::make_shared<HelpFormatter>());
  app->get_formatter()->column_width(34);
  app->get_formatter()->label("REQUIRED", "");
  app->footer(kExamples);
  commands = {add_run_command(*app),      add_serve_command(*app),      add_inspect_command(*app),
              add_tokenize_command(*app), add_detokenize_command(*app), add_eval_command(*app),
              add_bench_command(*app),    add_completions_command(*app)};
}

CommandLine::~CommandLine() = default;

int cli_main(int argc, char** argv) {
  // A reader that went away is a failed write, not a signal.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGBUS, on_lost_file);
  quire_on_out_of_memory(on_out_of_memory);
  try {
    CommandLine line;
    if (argc < 2) {
      say("{}", line.app->help());
      return kExitUsage;
    }
    return dispatch(line, argc, argv);
  } catch (const std::bad_alloc&) {
    say("{}", kOutOfMemory);
  } catch (const std::exception& error) {
    say("quire: {}\n", error.what());
  }
  return kExitFailure;
}

}  // namespace quire
