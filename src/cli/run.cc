#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/progress.h"
#include "base/stopwatch.h"
#include "cli/chat.h"
#include "cli/console.h"
#include "cli/load.h"
#include "cli/report.h"
#include "cli/run_flags.h"
#include "engine/prompt.h"
#include "engine/prompt_lookup.h"
#include "engine/session.h"
#include "sample/stop_matcher.h"

namespace quire {
namespace {

constexpr const char* kHelp = R"(Examples:
  quire run model.gguf -p "Write a haiku about pages."
  quire run model.gguf -f question.txt -n 200 --temp 0
  cat notes.txt | quire run model.gguf -f -
  quire run model.gguf --chat --system "You answer in French."
  quire run model.gguf -p "Once upon a time" --raw --stop "The end"
  quire run model.gguf -p "Hi" --json --logprobs 3 --seed 7 | jq .text
  quire run model.gguf -f rewrite_this.txt --speculate lookup

The answer goes to standard output, figures to standard error. A model that
carries a chat template gets the prompt as a user's message; --raw sends the text
as it is. Special tokens such as <|im_end|> mean something only in the template,
never in your text (unless --raw --special says so). Ctrl-C ends the answer.)";

constexpr std::int64_t kMaxDraftTokens = 256;

// What the flags alone can tell to be wrong.
std::optional<std::string> find_misuse(const RunFlags& flags) {
  const bool has_prompt = flags.prompt_option->count() > 0;
  const bool has_file = flags.file_option->count() > 0;
  if (has_prompt && has_file) return "-p and -f exclude each other";
  if (flags.chat) {
    if (flags.json) return "--json and --chat exclude each other";
    if (flags.raw) return "--raw and --chat exclude each other";
    if (has_file) return "-f and --chat exclude each other";
  } else if (!has_prompt && !has_file) {
    return "nothing to answer: give a prompt with -p or -f, or hold a conversation with --chat";
  }
  if (has_prompt && flags.prompt.empty()) return "the prompt is empty";
  if (flags.raw && flags.system_option->count() > 0) return "--raw and --system exclude each other";
  if (flags.special && !flags.raw) return "--special needs --raw: a chat message is plain text";
  if (flags.sampling.logprobs >= 0 && !flags.json) return "--logprobs needs --json";
  if (flags.draft_option->count() > 0 && flags.speculate == "off")
    return "--draft-tokens needs --speculate lookup";
  for (const auto& stop : flags.stop) {
    if (auto matcher = StopMatcher::create({stop}); !matcher) return matcher.error().message;
  }
  return std::nullopt;
}

Result<std::string> read_prompt(const RunFlags& flags) {
  if (flags.file_option->count() == 0) return flags.prompt;
  QUIRE_ASSIGN_OR_RETURN(auto text, read_text(flags.file));
  // Editors and echo end a file with a newline that nobody means.
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  if (text.empty()) return fail(ErrorCode::kInvalidArgument, "{} is empty", text_name(flags.file));
  return text;
}

Result<std::vector<TokenId>> encode_prompt(const Engine& engine, const RunFlags& flags,
                                           const std::string& text) {
  QUIRE_RETURN_IF_ERROR(check_text_length(engine.tokenizer(), text, engine.options().context));
  if (flags.raw) {
    return encode_plain(engine.tokenizer(), text,
                        flags.special ? ParseSpecial::kYes : ParseSpecial::kNo);
  }
  const auto& chat = engine.chat_template();
  QUIRE_CHECK(chat.has_value());  // needs_chat_template
  if (!chat->has_value()) {
    if (flags.system_option->count() > 0) {
      return fail(ErrorCode::kUnsupported,
                  "--system needs a chat template, and this model carries none");
    }
    return encode_plain(engine.tokenizer(), text, ParseSpecial::kNo);
  }
  auto messages = system_messages(flags);
  messages.push_back({"user", text});
  QUIRE_RETURN_IF_ERROR(check_message(flags.system));
  QUIRE_RETURN_IF_ERROR(check_message(text));
  return encode_chat(engine.tokenizer(), **chat, messages, true);
}

int answer(Engine& engine, const RunFlags& flags, const GenerateRequest& request, double load_s) {
  Session session(engine);
  InterruptGuard guard;
  Output out;
  StreamingSink stream(out, /*silent=*/flags.json);
  const std::uint64_t seed = request.sampling.seed;
  const bool draws = request.sampling.temperature > 0;
  const auto result = session.generate(request, stream.sink());
  stream.finish();
  if (!result) return failure(result.error());

  const RunReport report{*result, engine, load_s, seed};
  if (flags.json) {
    out.write(report_json(report, flags.sampling.logprobs >= 0) + "\n");
  } else {
    if (!result->text.ends_with('\n')) out.write("\n");
    write_stderr(report_figures(report, draws && flags.sampling.seed < 0));
  }
  const int exit_code = out.finish();
  if (result->error) return failure(*result->error);
  return InterruptGuard::interrupted() ? kExitInterrupted : exit_code;
}

int run(const RunFlags& flags) {
  if (const auto misuse = find_misuse(flags)) return usage_error("run: {}", *misuse);
  const auto sampling = flags.sampling.resolve();
  if (!sampling) return usage_error("run: {}", sampling.error().message);
  const auto prompt = read_prompt(flags);
  if (!prompt) return failure(prompt.error());

  Stopwatch watch;
  EngineOptions options = flags.engine.options();
  options.needs_chat_template = !flags.raw;
  const auto engine = load_engine(options);
  if (!engine) return failure(engine.error());
  const double load_s = watch.seconds();
  // Whether a bias or the number of alternatives fits is known only with the vocabulary.
  if (const auto sampler = Sampler::create(*sampling, (*engine)->spec().n_vocab); !sampler) {
    return usage_error("run: {}", sampler.error().message);
  }

  GenerateRequest request;
  request.max_tokens = flags.max_tokens;
  request.sampling = *sampling;
  request.stop = flags.stop;
  request.ignore_eos = flags.ignore_eos;
  PromptLookup lookup;
  if (flags.speculate == "lookup") request.drafter = &lookup;
  request.max_draft = flags.draft_tokens;
  if (flags.chat) return chat(**engine, flags, std::move(request), load_s);

  auto ids = encode_prompt(**engine, flags, *prompt);
  if (!ids) return failure(ids.error());
  request.prompt = std::move(*ids);
  return answer(**engine, flags, request, load_s);
}

}  // namespace

Command add_run_command(CLI::App& root) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* app = root.add_subcommand("run", "Answer a prompt, or hold a conversation");
  flags->engine.add_to(*app);
  flags->prompt_option =
      app->add_option("-p,--prompt", flags->prompt, "The prompt")->type_name("TEXT");
  flags->file_option =
      app->add_option("-f,--file", flags->file, "Read the prompt from a file; - is standard input")
          ->type_name("FILE");
  app->add_option("-n,--max-tokens", flags->max_tokens,
                  "Tokens to generate at most (default: until the model ends or the context "
                  "is full)")
      ->type_name("N")
      ->transform(integer_in(1, 1'000'000'000));
  app->add_flag("--chat", flags->chat, "A conversation; its cache is kept between turns");
  flags->system_option =
      app->add_option("--system", flags->system, "The system message")->type_name("TEXT");
  app->add_flag("--raw", flags->raw, "Send the prompt as it is, without the chat template");
  app->add_flag("--special", flags->special, "With --raw: special tokens in the prompt count");
  app->add_option("--stop", flags->stop, "End the answer before this text; repeatable")
      ->type_name("TEXT")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  app->add_flag("--ignore-eos", flags->ignore_eos, "Go on when the model says it is done");
  app->add_flag("--json", flags->json, "One JSON object instead of streamed text and figures");
  choices_only(app->add_option("--speculate", flags->speculate,
                               "Guess tokens that occurred before in the same order, several per "
                               "forward pass; changes speed, not the answer (default off)"),
               {"off", "lookup"});
  flags->draft_option = app->add_option("--draft-tokens", flags->draft_tokens,
                                        "Tokens to guess per forward pass at most (default 16)")
                            ->type_name("N")
                            ->transform(integer_in(1, kMaxDraftTokens));
  flags->sampling.add_to(*app);
  app->footer(kHelp);
  return {app, [flags] { return run(*flags); }};
}

}  // namespace quire
