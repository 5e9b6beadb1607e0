#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console.h"
#include "cli/flags.h"
#include "cli/load.h"

namespace quire {
namespace {

constexpr const char* kHelp = R"(Examples:
  echo "19556 905" | quire detokenize model.gguf
  quire tokenize model.gguf --json < a.txt | quire detokenize model.gguf | cmp - a.txt

Ids may be separated by spaces, newlines or commas, and may stand in brackets.
The output is the bytes of the tokens, with no newline added. Control tokens such
as <|im_end|> have no text unless --special is given.)";

struct DetokenizeFlags {
  std::string model;
  bool special = false;
};

Result<std::vector<TokenId>> parse_ids(std::string_view text, std::size_t vocab_size) {
  constexpr std::string_view kSeparators = " \t\r\n,[]";
  std::vector<TokenId> ids;
  while (true) {
    const auto begin = text.find_first_not_of(kSeparators);
    if (begin == std::string_view::npos) return ids;
    text.remove_prefix(begin);
    const auto word = text.substr(0, text.find_first_of(kSeparators));
    text.remove_prefix(word.size());
    TokenId id = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || rest != word.data() + word.size()) {
      return fail(ErrorCode::kInvalidArgument, "'{:.40}' is not a token id", word);
    }
    if (id < 0 || static_cast<std::size_t>(id) >= vocab_size) {
      return fail(ErrorCode::kInvalidArgument,
                  "there is no token {}: the vocabulary has tokens 0 to {}", id, vocab_size - 1);
    }
    ids.push_back(id);
  }
}

int detokenize(const DetokenizeFlags& flags) {
  const auto tokenizer = load_tokenizer(flags.model);
  if (!tokenizer) return failure(tokenizer.error());
  const auto text = read_text("-");
  if (!text) return failure(text.error());
  const auto ids = parse_ids(*text, (*tokenizer)->vocab_size());
  if (!ids) return failure(ids.error());

  std::string bytes;
  for (const TokenId id : *ids) bytes += (*tokenizer)->token_bytes(id, flags.special);
  // The space that encoding put in front of the text is not part of it.
  if ((*tokenizer)->adds_space_prefix() && bytes.starts_with(' ')) bytes.erase(0, 1);
  Output out;
  out.write(bytes);
  return out.finish();
}

}  // namespace

Command add_detokenize_command(CLI::App& root) {
  auto flags = std::make_shared<DetokenizeFlags>();
  CLI::App* app = root.add_subcommand("detokenize", "Token ids on standard input to text");
  add_model_argument(*app, flags->model);
  app->add_flag("--special", flags->special, "Show control tokens by their names");
  app->footer(kHelp);
  return {app, [flags] { return detokenize(*flags); }};
}

}  // namespace quire
