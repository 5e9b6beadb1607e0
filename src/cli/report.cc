#include "cli/report.h"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "base/bytes.h"
#include "text/utf8.h"

namespace quire {
namespace {

namespace json = boost::json;

double per_second(std::size_t n, double seconds) {
  return n == 0 || seconds <= 0 ? 0.0 : static_cast<double>(n) / seconds;
}

std::size_t pages_in_use(const KvStats& stats) { return stats.pages_hot + stats.pages_sealed; }

std::string token_text(const Tokenizer& tokenizer, TokenId id) {
  return replace_invalid_utf8(tokenizer.token_bytes(id, /*show_special=*/true));
}

json::array logprobs_json(const RunReport& report) {
  const Tokenizer& tokenizer = report.engine.tokenizer();
  json::array out;
  for (const auto& token : report.result.tokens) {
    json::array top;
    for (const auto& other : token.top) {
      top.push_back(json::object{{"token", other.token},
                                 {"text", token_text(tokenizer, other.token)},
                                 {"logprob", other.logprob}});
    }
    out.push_back(json::object{{"token", token.token},
                               {"text", token_text(tokenizer, token.token)},
                               {"logprob", token.logprob},
                               {"top", std::move(top)}});
  }
  return out;
}

}  // namespace

std::string report_figures(const RunReport& report, bool with_seed) {
  const auto& [result, engine, load_s, seed] = report;
  const auto& timings = result.timings;
  const KvStats stats = engine.kv().stats();
  const KvType type = engine.options().kv_type;
  std::string out = "\n";
  out += fmt::format("load     {:.2f} s\n", load_s);
  out += fmt::format("prefill  {} tokens, {:.1f} tokens/s\n", timings.prefill_tokens,
                     per_second(timings.prefill_tokens, timings.prefill_s));
  out += fmt::format("decode   {} tokens, {:.1f} tokens/s, finished by {}\n", result.tokens.size(),
                     per_second(timings.decode_tokens, timings.decode_s),
                     finish_reason_name(result.finish_reason));
  out += fmt::format("cache    {} in {} pages ({} tokens of a layer each), {} per token ({})\n",
                     format_byte_size(stats.bytes_used), pages_in_use(stats), stats.page_size,
                     format_byte_size(engine.spec().kv_bytes_per_token(type)), kv_type_name(type));
  if (result.speculation) {
    const SpeculationCounts& counts = *result.speculation;
    out += fmt::format("guesses  {} of {} right, in {} forward passes\n", counts.accepted,
                       counts.drafted, counts.steps);
  }
  if (with_seed) out += fmt::format("seed     {}\n", seed);
  return out;
}

std::string report_turn(const GenerateResult& result, const Engine& engine) {
  const auto& timings = result.timings;
  const KvStats stats = engine.kv().stats();
  std::string guesses;
  if (result.speculation)
    guesses = fmt::format(" ({} of {} guessed)", result.speculation->accepted,
                          result.speculation->drafted);
  return fmt::format(
      "[prefill {} tokens, {:.1f} tokens/s, {} from the cache; decode {} tokens, {:.1f} "
      "tokens/s{}; "
      "cache {} in {} pages]\n",
      timings.prefill_tokens, per_second(timings.prefill_tokens, timings.prefill_s),
      timings.cached_tokens, result.tokens.size(),
      per_second(timings.decode_tokens, timings.decode_s), guesses,
      format_byte_size(stats.bytes_used), pages_in_use(stats));
}

std::string report_json(const RunReport& report, bool with_logprobs) {
  const auto& [result, engine, load_s, seed] = report;
  const auto& timings = result.timings;
  const KvStats stats = engine.kv().stats();
  const KvType type = engine.options().kv_type;
  json::array tokens;
  for (const auto& token : result.tokens) tokens.push_back(token.token);
  json::object object{
      {"text", result.text},
      {"tokens", std::move(tokens)},
      {"prompt_tokens", result.prompt_tokens},
      {"completion_tokens", result.tokens.size()},
      {"finish_reason", finish_reason_name(result.finish_reason)},
      {"error", nullptr},
      {"logprobs", nullptr},
      {"seed", seed},
      {"speculation", nullptr},
      {"timings",
       json::object{{"load_s", load_s},
                    {"prefill_tokens_per_s", per_second(timings.prefill_tokens, timings.prefill_s)},
                    {"decode_tokens_per_s", per_second(timings.decode_tokens, timings.decode_s)}}},
      {"kv", json::object{{"bytes", stats.bytes_used},
                          {"bytes_per_token", engine.spec().kv_bytes_per_token(type)},
                          {"pages", pages_in_use(stats)},
                          {"page_size", stats.page_size},
                          {"type", kv_type_name(type)}}}};
  if (result.error) object["error"] = replace_invalid_utf8(result.error->message);
  if (result.speculation)
    object["speculation"] = json::object{{"steps", result.speculation->steps},
                                         {"drafted", result.speculation->drafted},
                                         {"accepted", result.speculation->accepted}};
  if (with_logprobs) object["logprobs"] = logprobs_json(report);
  return json::serialize(object);
}

GenerateSink StreamingSink::sink() {
  GenerateSink sink;
  sink.on_text = [this](std::string_view text) {
    progress_.reset();
    const bool wanted = silent_ || out_.write(text);
    return wanted && !InterruptGuard::interrupted();
  };
  sink.on_prefill = [this](std::size_t done, std::size_t total) {
    if (!progress_) progress_.emplace("prefill");
    progress_->update(static_cast<double>(done) / static_cast<double>(total),
                      fmt::format("{}/{} tokens", done, total));
    return !InterruptGuard::interrupted();
  };
  return sink;
}

}  // namespace quire
