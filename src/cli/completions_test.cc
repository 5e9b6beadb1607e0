#include "cli/completions.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "cli/cli.h"

namespace quire {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Completions, KnowWhatAnOptionTakes) {
  CLI::App app("what it does", "tool");
  CLI::App* sub = app.add_subcommand("go", "Go on");
  std::string file;
  bool flag = false;
  sub->add_option("-f,--file", file, "A file")->type_name("FILE");
  sub->add_flag("--fast", flag, "It's quick");
  const auto commands = describe(app);
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[0].name, "");
  EXPECT_EQ(commands[1].name, "go");
  const auto& options = commands[1].options;
  ASSERT_EQ(options.size(), 3u);  // CLI11 adds --help itself
  EXPECT_EQ(options[1].names, (std::vector<std::string>{"-f", "--file"}));
  EXPECT_TRUE(options[1].takes_value);
  EXPECT_TRUE(options[1].is_file);
  EXPECT_FALSE(options[2].takes_value);
}

TEST(Completions, NameEveryOptionOfEveryCommandInEveryShell) {
  const CommandLine line;
  const auto commands = describe(*line.app);
  EXPECT_EQ(commands.size(), line.commands.size() + 1);
  const auto bash = bash_completions(commands);
  const auto zsh = zsh_completions(commands);
  const auto fish = fish_completions(commands);
  for (const auto& command : line.commands) {
    EXPECT_TRUE(contains(bash, "'" + command.app->get_name() + "') options="));
    for (const CLI::Option* option : command.app->get_options()) {
      for (const auto& name : option->get_lnames()) {
        EXPECT_TRUE(contains(bash, "--" + name)) << name;
        EXPECT_TRUE(contains(zsh, "'*--" + name + "[")) << name;
        EXPECT_TRUE(contains(fish, " -l " + name + " ")) << name;
      }
    }
  }
  EXPECT_TRUE(contains(bash, "'run --kv-type') COMPREPLY=($(compgen -W 'f32 f16 bf16'"));
}

// Every option can be learned: it has a sentence.
TEST(CommandLine, EveryArgumentIsExplained) {
  const CommandLine line;
  for (const auto& command : describe(*line.app)) {
    EXPECT_FALSE(command.description.empty()) << command.name;
    for (const auto& list : {command.options, command.positionals}) {
      for (const auto& argument : list) {
        EXPECT_GT(argument.description.size(), 7u)
            << command.name << " " << (argument.names.empty() ? "" : argument.names.front());
      }
    }
  }
  for (const auto& command : line.commands) {
    EXPECT_TRUE(contains(command.app->get_footer(), "quire ")) << command.app->get_name();
  }
}

}  // namespace
}  // namespace quire
