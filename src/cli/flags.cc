#include "cli/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>

#include "base/bytes.h"
#include "engine/engine_options.h"

namespace quire {
namespace {

constexpr const char* kModelGroup = "Model and memory";
constexpr const char* kSamplingGroup = "Sampling";

template <typename T>
bool parse_all(std::string_view text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end;
}

CLI::Validator byte_size() {
  return {[](std::string& text) {
            const auto size = parse_byte_size(text);
            if (!size) return size.error().message;
            return *size == 0 ? std::string("must be more than 0 bytes") : std::string();
          },
          ""};
}

CLI::Validator logit_bias() {
  return {[](std::string& text) {
            const auto bias = parse_logit_bias(text);
            return bias ? std::string() : bias.error().message;
          },
          ""};
}

}  // namespace

CLI::Option* choices_only(CLI::Option* option, std::vector<std::string> choices) {
  std::string name;  // completions.cc reads the choices from it
  for (const auto& choice : choices) name += (name.empty() ? "" : "|") + choice;
  const CLI::Validator check(
      [choices = std::move(choices), name](std::string& text) {
        const bool known = std::find(choices.begin(), choices.end(), text) != choices.end();
        return known ? std::string() : fmt::format("{} is not one of {}", text, name);
      },
      "");
  return option->type_name(name)->check(check);
}

CLI::Validator number_in(double min, double max) {
  return {[min, max](std::string& text) {
            double value = 0;
            if (CLI::detail::lexical_cast(text, value) && value >= min && value <= max) {
              return std::string();
            }
            return fmt::format("{} is not a number from {} to {}", text, min, max);
          },
          ""};
}

CLI::Validator integer_in(std::int64_t min, std::int64_t max) {
  return {[min, max](std::string& text) {
            std::int64_t value = 0;
            if (!parse_all(text, value) || value < min || value > max) {
              return fmt::format("{} is not an integer from {} to {}", text, min, max);
            }
            text = std::to_string(value);  // 010 is ten, as anyone reads it
            return std::string();
          },
          ""};
}

void add_model_argument(CLI::App& app, std::string& model) {
  app.add_option("MODEL", model, "The model, a .gguf file (the first part of a split one)")
      ->required()
      ->type_name("FILE");
}

void EngineFlags::add_to(CLI::App& app) {
  add_model_argument(app, model);
  constexpr auto kMaxCount = std::numeric_limits<std::int32_t>::max();
  app.add_option("--ctx", numbers.context, "Tokens the context holds (default: as trained)")
      ->type_name("N")
      ->transform(integer_in(1, kMaxCount))
      ->group(kModelGroup);
  app.add_option("--threads", numbers.n_threads,
                 "Threads that compute (default: one for every CPU, fewer while others need them)")
      ->type_name("N")
      ->transform(integer_in(1, kMaxThreads))
      ->group(kModelGroup);
  choices_only(app.add_option("--page-size", numbers.page_size,
                              "Tokens per page of the KV cache (default 16)"),
               {"16", "32", "64", "128"})
      ->group(kModelGroup);
  app.add_option("--kv-memory", kv_memory,
                 "Memory for the KV cache, like 512MiB (default: what the context needs)")
      ->type_name("SIZE")
      ->check(byte_size())
      ->group(kModelGroup);
  choices_only(app.add_option("--kv-type", kv_type,
                              "How keys and values are stored (default f16, f32 with --reference)"),
               {"f32", "f16", "bf16"})
      ->group(kModelGroup);
  app.add_option("--prefill-chunk", numbers.prefill_chunk,
                 "Prompt tokens per forward pass (default 256); changes speed, not the answer")
      ->type_name("N")
      ->transform(integer_in(1, kMaxPrefillChunk))
      ->group(kModelGroup);
  app.add_flag("--reference", reference,
               "Compute and cache in f32 with dequantized weights: slow, for comparison")
      ->group(kModelGroup);
}

EngineOptions EngineFlags::options() const {
  EngineOptions options = numbers;
  options.model = model;
  options.precision = reference ? Precision::kReference : Precision::kFast;
  if (reference) options.kv_type = KvType::kF32;
  if (!kv_type.empty()) options.kv_type = *parse_kv_type(kv_type);          // checked while parsing
  if (!kv_memory.empty()) options.kv_memory = *parse_byte_size(kv_memory);  // likewise
  return options;
}

void SamplingFlags::add_to(CLI::App& app) {
  const auto number = [&](const char* name, float& value, double min, double max,
                          const char* help) {
    app.add_option(name, value, help)
        ->type_name("X")
        ->check(number_in(min, max))
        ->group(kSamplingGroup);
  };
  number("--temp", params.temperature, 0, 100,
         "Temperature (default 0.8); 0 always takes the likeliest token");
  app.add_option("--top-k", params.top_k, "Keep the N likeliest tokens (default 40); 0: off")
      ->type_name("N")
      ->transform(integer_in(0, std::numeric_limits<std::int32_t>::max()))
      ->group(kSamplingGroup);
  number("--top-p", params.top_p, 1e-6, 1,
         "Keep the likeliest tokens that reach X together (default 0.95); 1: off");
  number("--min-p", params.min_p, 0, 1,
         "Keep tokens at least X times as likely as the best (default 0.05); 0: off");
  number("--repeat-penalty", params.repeat_penalty, 0.01, 100,
         "Divide the logits of tokens that occurred (default 1: off)");
  number("--presence-penalty", params.presence_penalty, -100, 100,
         "Subtract X from the logits of tokens that occurred");
  number("--frequency-penalty", params.frequency_penalty, -100, 100,
         "Subtract X for each time that a token occurred");
  app.add_option("--seed", seed, "Makes the answer reproducible (default: random)")
      ->type_name("N")
      ->transform(integer_in(0, std::numeric_limits<std::int64_t>::max()))
      ->group(kSamplingGroup);
  app.add_option("--logit-bias", biases,
                 "Add to a token's logit: 15043+1, 15043-1, 15043-inf forbids it; repeatable")
      ->type_name("TOKEN+BIAS")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->check(logit_bias())
      ->group(kSamplingGroup);
  app.add_option("--logprobs", logprobs,
                 "Report each token's log-probability and N alternatives (with --json)")
      ->type_name("N")
      ->transform(integer_in(0, 1000))
      ->group(kSamplingGroup);
}

Result<SamplerParams> SamplingFlags::resolve() const {
  SamplerParams out = params;
  if (seed >= 0) {
    out.seed = static_cast<std::uint64_t>(seed);
  } else {
    out.seed = std::random_device{}();  // short enough to type again
  }
  for (const auto& text : biases) {
    QUIRE_ASSIGN_OR_RETURN(const auto bias, parse_logit_bias(text));
    out.logit_bias.push_back(bias);
  }
  out.logprobs = logprobs >= 0;
  if (out.logprobs) out.n_logprobs = static_cast<std::uint32_t>(logprobs);
  return out;
}

Result<std::pair<TokenId, float>> parse_logit_bias(std::string_view text) {
  const auto sign = std::min(text.find_first_of("=+-"), text.size());
  const auto token_text = text.substr(0, sign);
  // '=' is followed by any number; '+' and '-' are the sign of one.
  auto number = text.substr(sign);
  const bool is_plus = number.starts_with('+');
  if (!number.starts_with('-')) number.remove_prefix(std::min<std::size_t>(1, number.size()));
  TokenId token = 0;
  float bias = 0;
  const bool good = parse_all(token_text, token) && token >= 0 && parse_all(number, bias) &&
                    !std::isnan(bias) && !(is_plus && number.starts_with('-'));
  if (!good) {
    return fail(ErrorCode::kInvalidArgument,
                "'{}' is not a logit bias; write TOKEN+BIAS, TOKEN-BIAS or TOKEN=BIAS", text);
  }
  return std::pair{token, bias};
}

}  // namespace quire
