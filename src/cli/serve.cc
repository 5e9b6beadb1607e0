#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "cli/config_file.h"
#include "cli/console.h"
#include "cli/flags.h"
#include "cli/load.h"
#include "serve/api/api_server.h"
#include "serve/http/api_keys.h"

namespace quire {
namespace {

constexpr const char* kHelp = R"(Examples:
  quire serve model.gguf
  quire serve model.gguf --port 9000 --kv-memory 4GiB --max-running 32
  quire serve model.gguf --host 0.0.0.0 --api-key-file keys.txt
  quire serve model.gguf --config serve.toml
  curl localhost:8080/v1/chat/completions -d '{"messages":[{"role":"user","content":"Hi"}]}'

Serves OpenAI's protocol until Ctrl-C or SIGTERM, which lets the answers under way
finish; a second one ends them. Options can also be set by environment variables
(QUIRE_PORT for --port, and so on) and in a TOML file; the command line counts
most, then the environment, then the file. --print-config writes such a file.)";

struct ServeFlags {
  EngineFlags engine;
  ServeOptions serve;
  std::string config;
  std::string api_key_file;
  std::string scheduler = "continuous";
  std::string allocation = "paged";
  std::string pooling = "mean";
  std::string log_level = "info";
  std::string log_format = "text";
  bool no_chunks = false;
  bool no_prefix_cache = false;
  bool print_config = false;
  std::size_t drain_seconds = 30;
};

/// Blocks signals that ask for the end in all threads started while it lives, and waits for them.
class EndSignals {
 public:
  EndSignals() {
    ::sigemptyset(&signals_);
    ::sigaddset(&signals_, SIGINT);
    ::sigaddset(&signals_, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~EndSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  void wait() {
    int signal = 0;
    while (::sigwait(&signals_, &signal) != 0) {
    }
  }
  /// Whether one has come since.
  bool again() {
    const timespec none{};
    return ::sigtimedwait(&signals_, nullptr, &none) > 0;
  }

 private:
  sigset_t signals_{};
  sigset_t before_{};
};

void drain(ApiServer& server, EndSignals& signals, std::size_t seconds) {
  say("quire: finishing the answers under way; again to end them\n");
  server.drain();
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + std::chrono::seconds(seconds);
  const auto slice = std::chrono::milliseconds(100);
  while (!server.wait_drained(std::min(end, steady_clock::now() + slice)))
    if (steady_clock::now() >= end || signals.again()) break;
}

Result<ServeOptions> resolve(const ServeFlags& flags) {
  ServeOptions options = flags.serve;
  PlannerOptions& planner = options.service.planner;
  if (flags.scheduler == "static") planner.batch = BatchPolicy::kStatic;
  if (flags.allocation == "reserve") planner.allocation = AllocationPolicy::kReserve;
  planner.step_tokens = flags.engine.numbers.prefill_chunk;
  planner.chunked_prefill = !flags.no_chunks;
  if (flags.pooling == "last") options.pooling = Pooling::kLast;
  options.service.prefix_cache = !flags.no_prefix_cache;
  QUIRE_ASSIGN_OR_RETURN(options.log.level, parse_log_level(flags.log_level));
  QUIRE_ASSIGN_OR_RETURN(options.log.format, parse_log_format(flags.log_format));
  if (!flags.api_key_file.empty()) {
    QUIRE_ASSIGN_OR_RETURN(options.http.keys, ApiKeys::load(flags.api_key_file));
  }
  return options;
}

int serve(const ServeFlags& flags, CLI::App& app) {
  if (!flags.config.empty())
    if (const auto read = read_config(app, flags.config); !read)
      return usage_error("{}", read.error().message);
  if (flags.print_config) {
    Output out;
    out.write(write_config(app));
    return out.finish();
  }
  auto options = resolve(flags);
  if (!options) return failure(options.error());
  EngineOptions engine_options = flags.engine.options();
  engine_options.kv_sequences = options->service.planner.max_running;
  const auto engine = load_engine(engine_options);
  if (!engine) return failure(engine.error());
  // While the model loads they end the program at once; its threads take none.
  EndSignals signals;
  const auto server = ApiServer::start(**engine, std::move(*options));
  if (!server) return failure(server.error());
  const KvStats kv = (*server)->service().stats().kv;
  say("quire: {} on {}, {} of KV cache: {} tokens\n",
      (*engine)->options().model.filename().string(), (*server)->url(),
      format_byte_size(kv.pages_total * kv.page_bytes),
      kv.pages_total / (*engine)->kv().config().layers.size() * kv.page_size);
  signals.wait();
  drain(**server, signals, flags.drain_seconds);
  return kExitOk;
}

void add_http_options(CLI::App& app, ServeFlags& flags) {
  constexpr const char* kGroup = "Connections";
  HttpServerOptions& http = flags.serve.http;
  app.add_option("--host", http.host, "The address to listen on (default 127.0.0.1)")
      ->type_name("ADDRESS")
      ->envname("QUIRE_HOST")
      ->group(kGroup);
  app.add_option("--port", http.port, "The port; 0 is any that is free (default 8080)")
      ->type_name("N")
      ->transform(integer_in(0, 65535))
      ->envname("QUIRE_PORT")
      ->group(kGroup);
  app.add_option("--api-key-file", flags.api_key_file,
                 "Who may ask: NAME:SHA256 of a key per line (default: everyone)")
      ->type_name("FILE")
      ->envname("QUIRE_API_KEY_FILE")
      ->group(kGroup);
  app.add_option("--tls-cert", http.tls_certificate, "Serve HTTPS with this certificate (PEM)")
      ->type_name("FILE")
      ->envname("QUIRE_TLS_CERT")
      ->group(kGroup);
  app.add_option("--tls-key", http.tls_key, "The certificate's private key (PEM)")
      ->type_name("FILE")
      ->envname("QUIRE_TLS_KEY")
      ->group(kGroup);
  app.add_option("--max-connections", http.limits.connections, "Connections at once (default 4096)")
      ->type_name("N")
      ->transform(integer_in(1, 1'000'000))
      ->envname("QUIRE_MAX_CONNECTIONS")
      ->group(kGroup);
  app.add_option("--drain-timeout", flags.drain_seconds,
                 "Seconds that answers have to finish when the server ends (default 30)")
      ->type_name("N")
      ->transform(integer_in(0, 86'400))
      ->envname("QUIRE_DRAIN_TIMEOUT")
      ->group(kGroup);
  choices_only(app.add_option("--log-level", flags.log_level, "What is logged (default info)"),
               {"debug", "info", "warning", "error", "off"})
      ->envname("QUIRE_LOG_LEVEL")
      ->group(kGroup);
  choices_only(app.add_option("--log-format", flags.log_format, "How (default text)"),
               {"text", "json"})
      ->envname("QUIRE_LOG_FORMAT")
      ->group(kGroup);
}

void add_service_options(CLI::App& app, ServeFlags& flags) {
  constexpr const char* kGroup = "Scheduling";
  ServiceOptions& service = flags.serve.service;
  app.add_option("--max-running", service.planner.max_running,
                 "Sequences that are computed together (default 64)")
      ->type_name("N")
      ->transform(integer_in(1, 4096))
      ->envname("QUIRE_MAX_RUNNING")
      ->group(kGroup);
  app.add_option("--max-waiting", service.max_waiting,
                 "Requests that wait; more are refused with 429 (default 1024)")
      ->type_name("N")
      ->transform(integer_in(1, 1'000'000))
      ->envname("QUIRE_MAX_WAITING")
      ->group(kGroup);
  app.add_option("--max-per-key", service.max_per_tenant,
                 "Sequences of one key that are computed together; 0 is no limit (default 0)")
      ->type_name("N")
      ->transform(integer_in(0, 4096))
      ->envname("QUIRE_MAX_PER_KEY")
      ->group(kGroup);
  choices_only(app.add_option("--scheduler", flags.scheduler,
                              "static: a batch begins when the one before has ended, for "
                              "comparison (default continuous)"),
               {"continuous", "static"})
      ->envname("QUIRE_SCHEDULER")
      ->group(kGroup);
  choices_only(app.add_option("--kv-allocation", flags.allocation,
                              "reserve: as many pages as a request could ever need, for "
                              "comparison (default paged)"),
               {"paged", "reserve"})
      ->envname("QUIRE_KV_ALLOCATION")
      ->group(kGroup);
  app.add_flag("--no-chunked-prefill", flags.no_chunks,
               "Compute every prompt in one step, for comparison")
      ->group(kGroup);
  app.add_flag("--no-prefix-cache", flags.no_prefix_cache,
               "Do not look for prompts that begin alike")
      ->group(kGroup);
}

/// Options are read from QUIRE_PORT and so on by this command only: a system may have such
/// variables for reasons of its own, and no other command should fail for them.
void read_environment_when_called(CLI::App& app) {
  auto names = std::make_shared<std::vector<std::pair<CLI::Option*, std::string>>>();
  for (CLI::Option* option : app.get_options()) {
    if (option->get_envname().empty()) continue;
    names->emplace_back(option, option->get_envname());
    option->envname("");
  }
  app.preparse_callback([names](std::size_t) {
    for (const auto& [option, name] : *names) option->envname(name);
  });
}

}  // namespace

Command add_serve_command(CLI::App& root) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* app = root.add_subcommand("serve", "Serve OpenAI's HTTP protocol");
  flags->engine.add_to(*app);
  add_http_options(*app, *flags);
  add_service_options(*app, *flags);
  app->add_option("--model-name", flags->serve.model_names,
                  "What clients call the model; repeatable (default: the file's name)")
      ->type_name("NAME")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  choices_only(app->add_option("--pooling", flags->pooling,
                               "Embeddings from the mean of all tokens or the last (default mean)"),
               {"mean", "last"})
      ->envname("QUIRE_POOLING");
  app->add_option("--config", flags->config, "Read options from a TOML file")
      ->type_name("FILE")
      ->configurable(false)
      ->envname("QUIRE_CONFIG");
  app->add_flag("--print-config", flags->print_config, "Write the options as a TOML file, and end")
      ->configurable(false);
  app->footer(kHelp);
  read_environment_when_called(*app);
  return {app, [flags, app] { return serve(*flags, *app); }};
}

}  // namespace quire
