#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "base/stopwatch.h"
#include "base/thread_pool.h"
#include "cli/bench_report.h"
#include "cli/console.h"
#include "cli/flags.h"
#include "cli/load.h"
#include "engine/available_memory.h"

namespace quire {
namespace {

constexpr const char* kHelp = R"(Examples:
  quire bench model.gguf
  quire bench model.gguf --prompt 512,4096 --depth 0,4096 --batch 1,16 --kv-type bf16
  quire bench model.gguf --prompt none --depth 0 --generate 128 --json
  quire bench --roofline
  quire bench model.gguf --prompt 4096 --depth 4096 --dry-run

Measures prompts computed from an empty cache, and tokens decoded one step at a
time: every --depth (tokens that the cache holds already) with every --batch
(sequences in one step). Tokens are random, always the same ones. Each case runs
once to warm up, then --repeat times; the table gives tokens per second, and which
share that is of what the machine could do at best: reading the packed weights once
per pass and the cache once per token at the measured bandwidth, or multiplying at
the measured peaks, whichever takes longer. --roofline measures only these limits,
--dry-run only says what they come to in each case.)";

constexpr std::size_t kMaxTokens = 10'000'000;
constexpr std::size_t kMaxBatch = 1024;

struct BenchFlags {
  EngineFlags engine;
  std::string prompts = "512";
  std::string depths = "0,512";
  std::string batches = "1,4";
  std::size_t generate = 64;
  bool shared = false;
  BenchRun run;
  bool dry_run = false;
  bool no_limits = false;
  bool roofline = false;
  bool json = false;
  std::vector<const CLI::Option*> model_only;  // make no sense with --roofline
};

/// A list that parse_counts reads; "none" only where the list may be empty.
CLI::Validator counts_in(std::size_t min, std::size_t max, bool may_be_empty) {
  return {[=](std::string& text) {
            const auto counts = parse_counts(text, min, max);
            if (!counts) return counts.error().message;
            if (counts->empty() && !may_be_empty) return std::string("must not be empty");
            return std::string();
          },
          ""};
}

BenchPlan make_plan(const BenchFlags& flags) {
  // The lists were checked while parsing.
  return {.prompts = *parse_counts(flags.prompts, 1, kMaxTokens),
          .depths = *parse_counts(flags.depths, 0, kMaxTokens),
          .batches = *parse_counts(flags.batches, 1, kMaxBatch),
          .generate = flags.generate,
          .shared = flags.shared};
}

/// Shows what is being measured, until Ctrl-C.
class Bar {
 public:
  explicit Bar(std::string label) : progress_(std::move(label)) {}
  bool operator()(double done, std::string_view note) {
    progress_.update(done, note);
    return !InterruptGuard::interrupted();
  }
  void finish() { progress_.finish(); }

 private:
  Progress progress_;
};

int finish(const Output& out) {
  const int exit_code = out.finish();
  return InterruptGuard::interrupted() ? kExitInterrupted : exit_code;
}

int bench_roofline(const BenchFlags& flags) {
  for (const CLI::Option* option : flags.model_only) {
    if (option->count() == 0) continue;
    return usage_error("bench: --roofline measures the machine alone, without {}",
                       option->get_name());
  }
  const std::size_t all =
      flags.engine.numbers.n_threads == 0 ? available_cpus() : flags.engine.numbers.n_threads;
  std::vector<std::size_t> counts = {1};
  if (all > 1) counts.push_back(all);

  InterruptGuard guard;
  Bar bar("measuring");
  std::vector<Roofline> rooflines;
  for (const std::size_t n_threads : counts) {
    const auto roofline = measure_roofline({.n_threads = n_threads}, [&](double done) {
      const auto before = static_cast<double>(rooflines.size());
      return bar((before + done) / static_cast<double>(counts.size()),
                 n_threads == 1 ? "1 thread" : "all threads");
    });
    if (!roofline) return failure(roofline.error());
    if (InterruptGuard::interrupted()) break;
    rooflines.push_back(*roofline);
  }
  bar.finish();
  if (rooflines.empty()) return kExitInterrupted;
  const BenchMachine machine = describe_machine();
  Output out;
  out.write(flags.json ? roofline_json(machine, rooflines) : roofline_text(machine, rooflines));
  return finish(out);
}

Result<EngineOptions> plan_options(const EngineOptions& given,
                                   const std::vector<BenchCase>& cases) {
  QUIRE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::open(given.model));
  QUIRE_ASSIGN_OR_RETURN(const ModelSpec spec, read_model_spec(file));
  return options_for_cases(given, spec, cases, available_memory());
}

/// The samples of every case; none, with no case missing, on a dry run.
Result<std::vector<BenchSamples>> measure(Engine& engine, const std::vector<BenchCase>& cases,
                                          const BenchFlags& flags) {
  if (flags.dry_run) {
    std::vector<BenchSamples> out;
    for (const BenchCase& c : cases) out.push_back({.bench_case = c, .seconds = {}});
    return out;
  }
  Bar bar("measuring");
  auto samples = run_cases(engine, cases, flags.run,
                           [&](double done, std::string_view name) { return bar(done, name); });
  bar.finish();
  return samples;
}

int bench_model(const BenchFlags& flags) {
  const std::vector<BenchCase> cases = make_plan(flags).cases();
  if (cases.empty()) return usage_error("bench: --prompt and --depth leave nothing to measure");
  const auto options = plan_options(flags.engine.options(), cases);
  if (!options) return failure(options.error());
  const Stopwatch watch;
  const auto loaded = load_engine(*options);
  if (!loaded) return failure(loaded.error());
  const double load_s = watch.seconds();
  Engine& engine = **loaded;

  InterruptGuard guard;
  Roofline roofline;
  if (!flags.no_limits) {
    Bar bar("limits");
    const auto measured =
        measure_roofline({.n_threads = engine.options().n_threads},
                         [&](double done) { return bar(done, "of the machine"); });
    bar.finish();
    if (!measured) return failure(measured.error());
    roofline = *measured;
  }
  if (InterruptGuard::interrupted()) return kExitInterrupted;

  const auto samples = measure(engine, cases, flags);
  if (!samples) return failure(samples.error());
  if (samples->empty()) return kExitInterrupted;

  const BenchMachine machine = describe_machine();
  const ModelCost cost = model_cost(engine.weights(), engine.kv().config());
  const BenchReport report{.options = engine.options(),
                           .spec = engine.spec(),
                           .cost = cost,
                           .machine = machine,
                           .roofline = flags.no_limits ? nullptr : &roofline,
                           .samples = *samples,
                           .load_s = load_s,
                           .run = flags.run};
  Output out;
  out.write(flags.json ? bench_json(report) : bench_text(report));
  return finish(out);
}

int bench(const BenchFlags& flags) {
  if (flags.roofline) return bench_roofline(flags);
  if (flags.engine.model.empty()) {
    return usage_error("bench: nothing to measure: give a model, or --roofline");
  }
  return bench_model(flags);
}

}  // namespace

Command add_bench_command(CLI::App& root) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* app = root.add_subcommand("bench", "Measure a model's speed, or the machine's limits");
  flags->engine.add_to(*app);
  app->remove_option(app->get_option("--ctx"));  // what the cases need
  app->get_option("MODEL")->required(false);
  app->get_option("--kv-memory")
      ->description("Memory for the KV cache, like 512MiB (default: what the cases need)");
  const auto list = [&](const char* name, std::string& value, std::size_t min, std::size_t max,
                        bool may_be_empty, const char* help) {
    app->add_option(name, value, help)
        ->type_name("N,N,...")
        ->check(counts_in(min, max, may_be_empty));
  };
  list("--prompt", flags->prompts, 1, kMaxTokens, true,
       "Lengths of prompts to compute (default 512), or none");
  list("--depth", flags->depths, 0, kMaxTokens, true,
       "Tokens in the cache before decoding (default 0,512), or none");
  list("--batch", flags->batches, 1, kMaxBatch, false,
       "Sequences that decode together (default 1,4)");
  app->add_flag("--shared", flags->shared,
                "Sequences of a batch share what the cache holds, like answers to one prompt");
  app->add_option("--generate", flags->generate, "Tokens to decode per sequence (default 64)")
      ->type_name("N")
      ->transform(integer_in(1, kMaxTokens));
  app->add_option("--repeat", flags->run.repeat, "Times to measure each case (default 5)")
      ->type_name("N")
      ->transform(integer_in(1, 1000));
  app->add_flag("--greedy", flags->run.greedy,
                "Choose the likeliest token of every row while decoding, and count its time");
  CLI::Option* dry_run = app->add_flag(
      "--dry-run", flags->dry_run, "Compute nothing, only say what the machine's limits come to");
  app->add_flag("--no-limits", flags->no_limits, "Do not measure what the machine can do at best")
      ->excludes(dry_run);
  for (const char* name : {"MODEL", "--page-size", "--kv-memory", "--kv-type", "--prefill-chunk",
                           "--reference", "--prompt", "--depth", "--batch", "--shared",
                           "--generate", "--repeat", "--greedy", "--dry-run", "--no-limits"}) {
    flags->model_only.push_back(app->get_option(name));
  }
  app->add_flag("--roofline", flags->roofline,
                "Measure only what the machine can do at best, with one thread and with all");
  app->add_flag("--json", flags->json, "One JSON object");
  app->footer(kHelp);
  return {app, [flags] { return bench(*flags); }};
}

}  // namespace quire
