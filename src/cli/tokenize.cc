#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/console.h"
#include "cli/flags.h"
#include "cli/load.h"

namespace quire {
namespace {

constexpr const char* kHelp = R"(Examples:
  echo -n "Hello world" | quire tokenize model.gguf
  quire tokenize model.gguf --special --json < prompt.txt
  quire tokenize model.gguf < book.txt | wc -w

Reads standard input to its end and takes every byte as it is, the last newline
too. Only the tokenizer is loaded.)";

struct TokenizeFlags {
  std::string model;
  bool special = false;
  bool bos = false;
  bool json = false;
};

int tokenize(const TokenizeFlags& flags) {
  const auto tokenizer = load_tokenizer(flags.model);
  if (!tokenizer) return failure(tokenizer.error());
  const auto text = read_text("-");
  if (!text) return failure(text.error());
  auto ids = (*tokenizer)->encode(*text, flags.special ? ParseSpecial::kYes : ParseSpecial::kNo);
  if (!ids) return failure(ids.error());
  if (flags.bos) *ids = (*tokenizer)->with_bos(std::move(*ids));

  Output out;
  out.write(flags.json ? fmt::format("[{}]\n", fmt::join(*ids, ","))
                       : fmt::format("{}\n", fmt::join(*ids, " ")));
  return out.finish();
}

}  // namespace

Command add_tokenize_command(CLI::App& root) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* app = root.add_subcommand("tokenize", "Text on standard input to token ids");
  add_model_argument(*app, flags->model);
  app->add_flag("--special", flags->special, "Texts like <|im_end|> become special tokens");
  app->add_flag("--bos", flags->bos, "Begin with the BOS token, if the model wants one");
  app->add_flag("--json", flags->json, "A JSON list instead of a line with spaces");
  app->footer(kHelp);
  return {app, [flags] { return tokenize(*flags); }};
}

}  // namespace quire
