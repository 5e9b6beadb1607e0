#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/stopwatch.h"
#include "cli/console.h"
#include "cli/flags.h"
#include "cli/load.h"
#include "cli/perplexity.h"
#include "engine/prompt.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr std::size_t kDefaultContext = 512;
constexpr const char* kHelp = R"(Examples:
  quire eval model.gguf --text book.txt
  quire eval model.gguf --text book.txt --ctx 2048 --stride 1024 --json
  quire eval model.gguf --text book.txt --kl-reference --windows 80

The text is cut into windows of --ctx tokens (default 512), --stride apart
(default: --ctx, no overlap). Of each window the second half is scored, as the
perplexity tool of llama.cpp does; overlapping windows score no token twice. What
would not fill a window is left out. --kl-reference also computes every token in
f32 and says how far the fast path is from that.)";

struct EvalFlags {
  EngineFlags engine;
  std::string text;
  std::size_t stride = 0;       // 0: the context
  std::size_t max_windows = 0;  // 0: all
  bool kl_reference = false;
  bool json = false;
};

struct EvalReport {
  const EvalFlags& flags;
  const EngineOptions& options;
  const Evaluation& evaluation;
  std::size_t text_tokens = 0;
  std::size_t windows = 0;
  std::size_t stride = 0;
  double seconds = 0;

  double perplexity_change() const {
    return evaluation.score().perplexity() / evaluation.reference_score().perplexity() - 1;
  }
  double same_top() const {
    return static_cast<double>(evaluation.divergence().same_top) /
           static_cast<double>(evaluation.score().tokens);
  }
};

json::object score_json(const Score& score) {
  return {{"perplexity", score.perplexity()},
          {"perplexity_error", score.perplexity_error()},
          {"tokens", score.tokens},
          {"nll", score.nll},
          {"nll_per_token", score.nll / static_cast<double>(score.tokens)}};
}

std::string report_as_json(const EvalReport& report) {
  json::object object = score_json(report.evaluation.score());
  object["ctx"] = report.options.context;
  object["stride"] = report.stride;
  object["windows"] = report.windows;
  object["text_tokens"] = report.text_tokens;
  object["precision"] = report.flags.engine.reference ? "reference" : "fast";
  object["kv_type"] = kv_type_name(report.options.kv_type);
  object["seconds"] = report.seconds;
  if (report.flags.kl_reference) {
    const Divergence& divergence = report.evaluation.divergence();
    object["reference"] = score_json(report.evaluation.reference_score());
    object["perplexity_change"] = report.perplexity_change();
    object["kl"] = json::object{{"mean", divergence.mean()},
                                {"median", divergence.quantile(0.5)},
                                {"p99", divergence.quantile(0.99)},
                                {"max", divergence.quantile(1)},
                                {"same_top", report.same_top()}};
  }
  return json::serialize(object) + "\n";
}

std::string report_as_text(const EvalReport& report) {
  const Score& score = report.evaluation.score();
  std::string out =
      fmt::format("perplexity  {:.4f} +/- {:.4f}\n", score.perplexity(), score.perplexity_error());
  out +=
      fmt::format("tokens      {} scored of {}, {} windows of {} tokens, stride {}\n", score.tokens,
                  report.text_tokens, report.windows, report.options.context, report.stride);
  out += fmt::format("nll         {:.6f} nats per token\n",
                     score.nll / static_cast<double>(score.tokens));
  if (report.flags.kl_reference) {
    const Divergence& divergence = report.evaluation.divergence();
    out += fmt::format("reference   {:.4f} perplexity, {:+.3f} % from it\n",
                       report.evaluation.reference_score().perplexity(),
                       report.perplexity_change() * 100);
    out += fmt::format("kl          {:.3e} nats per token, median {:.1e}, 99 % below {:.1e}\n",
                       divergence.mean(), divergence.quantile(0.5), divergence.quantile(0.99));
    out += fmt::format("same top    {:.2f} % of tokens\n", report.same_top() * 100);
  }
  return out;
}

EngineOptions reference_options(EngineOptions options) {
  options.precision = Precision::kReference;
  options.kv_type = KvType::kF32;
  options.kv_memory = 0;  // given for the fast type
  return options;
}

int eval(const EvalFlags& flags) {
  if (flags.engine.reference && flags.kl_reference) {
    return usage_error("eval: --reference and --kl-reference exclude each other");
  }
  auto options = flags.engine.options();
  if (options.context == 0) options.context = kDefaultContext;
  if (options.context < 16) return usage_error("eval: --ctx must be at least 16");
  const std::size_t stride = flags.stride == 0 ? options.context : flags.stride;
  if (stride > options.context) {
    return usage_error("eval: --stride {} is more than --ctx {}", stride, options.context);
  }

  const auto text = read_text(flags.text);
  if (!text) return failure(text.error());
  const auto engine = load_engine(options);
  if (!engine) return failure(engine.error());
  std::unique_ptr<Engine> reference;
  if (flags.kl_reference) {
    auto loaded = load_engine(reference_options(options));
    if (!loaded) return failure(loaded.error());
    reference = std::move(*loaded);
  }

  const auto ids = encode_plain((*engine)->tokenizer(), *text, ParseSpecial::kNo);
  if (!ids) return failure(ids.error());
  auto windows = plan_windows(ids->size(), options.context, stride);
  if (windows.empty()) {
    return failure({ErrorCode::kInvalidArgument,
                    fmt::format("{} has {} tokens, fewer than one window of {} (see --ctx)",
                                text_name(flags.text), ids->size(), options.context)});
  }
  if (flags.max_windows > 0 && windows.size() > flags.max_windows) {
    windows.resize(flags.max_windows);
  }

  Stopwatch watch;
  Progress progress("evaluating");
  InterruptGuard guard;
  Evaluation evaluation(**engine, reference.get(), (*engine)->options().n_threads);
  std::size_t done = 0;
  for (const auto& window : windows) {
    if (InterruptGuard::interrupted()) break;
    if (auto status = evaluation.add(*ids, window); !status) return failure(status.error());
    ++done;
    progress.update(static_cast<double>(done) / static_cast<double>(windows.size()),
                    fmt::format("{}/{} windows, perplexity {:.3f}", done, windows.size(),
                                evaluation.score().perplexity()));
  }
  progress.finish();
  if (evaluation.score().tokens == 0) return kExitInterrupted;
  if (auto status = evaluation.check_figures(); !status) return failure(status.error());

  const EvalReport report{flags,  (*engine)->options(), evaluation, ids->size(), done,
                          stride, watch.seconds()};
  Output out;
  out.write(flags.json ? report_as_json(report) : report_as_text(report));
  const int exit_code = out.finish();
  return InterruptGuard::interrupted() ? kExitInterrupted : exit_code;
}

}  // namespace

Command add_eval_command(CLI::App& root) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App* app = root.add_subcommand("eval", "Perplexity on a text");
  flags->engine.add_to(*app);
  app->get_option("--ctx")->description("Tokens per window (default 512)");
  app->add_option("--text", flags->text, "The text; - is standard input")
      ->type_name("FILE")
      ->required();
  app->add_option("--stride", flags->stride,
                  "Tokens between the starts of windows (default: --ctx)")
      ->type_name("N")
      ->transform(integer_in(1, 1'000'000'000));
  app->add_option("--windows", flags->max_windows, "Stop after this many windows")
      ->type_name("N")
      ->transform(integer_in(1, 1'000'000'000));
  app->add_flag("--kl-reference", flags->kl_reference,
                "Also measure how far the fast path is from f32");
  app->add_flag("--json", flags->json, "One JSON object");
  app->footer(kHelp);
  return {app, [flags] { return eval(*flags); }};
}

}  // namespace quire
