#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/completions.h"
#include "cli/console.h"
#include "cli/flags.h"

namespace quire {
namespace {

constexpr const char* kHelp = R"(Examples:
  source <(quire completions bash)                                   # this shell
  quire completions bash > ~/.local/share/bash-completion/completions/quire
  quire completions zsh > ~/.zfunc/_quire
  quire completions fish > ~/.config/fish/completions/quire.fish)";

}  // namespace

Command add_completions_command(CLI::App& root) {
  auto shell = std::make_shared<std::string>();
  CLI::App* app = root.add_subcommand("completions", "Print completions for a shell");
  choices_only(app->add_option("SHELL", *shell, "The shell")->required(), {"bash", "zsh", "fish"});
  app->footer(kHelp);
  return {app, [shell, &root] {
            const auto commands = describe(root);
            Output out;
            if (*shell == "bash") out.write(bash_completions(commands));
            if (*shell == "zsh") out.write(zsh_completions(commands));
            if (*shell == "fish") out.write(fish_completions(commands));
            return out.finish();
          }};
}

}  // namespace quire
