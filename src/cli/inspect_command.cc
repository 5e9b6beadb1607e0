#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/console.h"
#include "cli/flags.h"
#include "cli/inspect.h"

namespace quire {
namespace {

constexpr const char* kHelp = R"(Examples:
  quire inspect model.gguf
  quire inspect model.gguf --json | jq '.tensors | length'

Reads the file's description only, not its weights.)";

struct InspectFlags {
  std::string model;
  bool json = false;
};

int inspect(const InspectFlags& flags) {
  const auto file = GgufFile::open(flags.model);
  if (!file) return failure(file.error());
  const auto summary = summarize(*file);
  if (!summary) return failure(summary.error());
  Output out;
  out.write(flags.json ? inspect_json(*file, *summary) : inspect_text(*file, *summary));
  return out.finish();
}

}  // namespace

Command add_inspect_command(CLI::App& root) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* app = root.add_subcommand("inspect", "Show what a model file holds");
  add_model_argument(*app, flags->model);
  app->add_flag("--json", flags->json, "One JSON object");
  app->footer(kHelp);
  return {app, [flags] { return inspect(*flags); }};
}

}  // namespace quire
