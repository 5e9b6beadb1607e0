#include "engine/session.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/stopwatch.h"

namespace quire {

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "unknown";
}

Session::Session(Engine& engine) : engine_(engine), sequence_(engine.add_sequence()) {}

Session::~Session() { engine_.release(sequence_); }

void Session::reuse_prefix(std::span<const TokenId> prompt) {
  const auto [cached_end, prompt_end] =
      std::mismatch(cached_.begin(), cached_.end(), prompt.begin(), prompt.end());
  auto common = static_cast<std::size_t>(cached_end - cached_.begin());
  // The logits of the last token are not cached: it is always computed.
  common = std::min(common, prompt.size() - 1);
  if (common == cached_.size()) return;
  // Window layers may have dropped what a shorter sequence would need: then nothing is reusable.
  if (!engine_.truncate(sequence_, common)) {
    common = 0;
    QUIRE_CHECK(engine_.truncate(sequence_, 0).has_value());
  }
  cached_.resize(common);
}

Result<GenerateResult> Session::generate(const GenerateRequest& request, const GenerateSink& sink) {
  const std::size_t context = engine_.options().context;
  if (request.prompt.empty()) return fail(ErrorCode::kInvalidArgument, "the prompt is empty");
  if (request.prompt.size() >= context)
    return fail(ErrorCode::kInvalidArgument,
                "the prompt has {} tokens, which leaves no room to answer in a context of {} "
                "tokens (see --ctx)",
                request.prompt.size(), context);
  QUIRE_ASSIGN_OR_RETURN(StopMatcher stops, StopMatcher::create(request.stop));
  QUIRE_ASSIGN_OR_RETURN(Sampler sampler,
                         Sampler::create(request.sampling, engine_.spec().n_vocab));
  GenerateResult result;
  result.prompt_tokens = request.prompt.size();
  reuse_prefix(request.prompt);
  result.timings.cached_tokens = cached_.size();

  Stopwatch watch;
  const auto fresh = std::span(request.prompt).subspan(cached_.size());
  auto prefilled = engine_.prefill(sequence_, fresh, [&](std::size_t done) {
    return !sink.on_prefill || sink.on_prefill(done, fresh.size());
  });
  if (!prefilled) {
    cached_.resize(engine_.kv().length(sequence_));
    return fail(std::move(prefilled).error());
  }
  const std::size_t computed = engine_.kv().length(sequence_) - cached_.size();
  cached_.insert(cached_.end(), fresh.begin(),
                 fresh.begin() + static_cast<std::ptrdiff_t>(computed));
  result.timings.prefill_s = watch.seconds();
  result.timings.prefill_tokens = computed;
  if (prefilled->n_rows == 0) {
    result.finish_reason = FinishReason::kCancelled;
    return result;
  }
  for (const TokenId token : request.prompt) sampler.accept(token);
  return decode(request, sink, *prefilled, sampler, stops, std::move(result));
}

Result<GenerateResult> Session::decode(const GenerateRequest& request, const GenerateSink& sink,
                                       StepLogits logits, Sampler& sampler, StopMatcher& stops,
                                       GenerateResult result) {
  const Tokenizer& tokenizer = engine_.tokenizer();
  const std::size_t room = engine_.options().context - request.prompt.size();
  const std::size_t limit = request.max_tokens == 0 ? room : std::min(request.max_tokens, room);
  // The answer continues the prompt: a SentencePiece space in front belongs to it.
  StreamDecoder decoder(tokenizer, /*show_special=*/false, /*continues=*/true);
  Stopwatch watch;
  bool wanted = true;
  const auto emit = [&](const std::string& text) {
    result.text += text;
    if (sink.on_text) wanted = sink.on_text(text);
  };

  const auto break_off = [&](Error error) {
    result.finish_reason = FinishReason::kError;
    result.error = std::move(error);
  };

  result.finish_reason = FinishReason::kLength;
  while (true) {
    auto sampled = sampler.sample(logits.row(0));
    if (!sampled) {
      if (result.tokens.empty()) return fail(std::move(sampled).error());
      break_off(std::move(sampled).error());
      break;
    }
    const TokenId token = sampled->token;
    sampler.accept(token);
    result.tokens.push_back(std::move(*sampled));
    if (tokenizer.is_end_of_generation(token) && !request.ignore_eos) {
      result.finish_reason = FinishReason::kStop;
      break;
    }
    emit(stops.push(decoder.push(token)));
    if (stops.stopped()) {
      result.finish_reason = FinishReason::kStop;
      break;
    }
    if (!wanted) {
      result.finish_reason = FinishReason::kCancelled;
      break;
    }
    if (result.tokens.size() >= limit) break;

    const StepItem item{
        .sequence = sequence_, .tokens = std::span(&token, 1), .logits = LogitsWanted::kLast};
    auto next = engine_.step(std::span(&item, 1));
    if (!next) {  // what was generated is not lost with what could not be
      break_off(std::move(next).error());
      break;
    }
    logits = *next;
    cached_.push_back(token);
    ++result.timings.decode_tokens;
  }
  if (!stops.stopped()) {
    emit(stops.push(decoder.finish()));
    emit(stops.finish());
    if (stops.stopped()) result.finish_reason = FinishReason::kStop;
  }
  result.timings.decode_s = watch.seconds();
  return result;
}

}  // namespace quire
