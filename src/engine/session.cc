#include "engine/session.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/stopwatch.h"
#include "engine/answer.h"
#include "sample/stop_matcher.h"

namespace quire {

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

  const Stopwatch watch;
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

  const Stopwatch decode_watch;
  if (request.drafter != nullptr) {
    request.drafter->begin(request.prompt);
    result.speculation.emplace();
  }
  Answer answer(request, sink, engine_.tokenizer(), sampler, stops,
                context - request.prompt.size());
  std::optional<TokenId> token = answer.next(prefilled->row(0));
  while (token) {
    if (auto advanced = advance(request, answer, token, result); !advanced) {
      answer.break_off(std::move(advanced).error());
      break;
    }
  }
  QUIRE_RETURN_IF_ERROR(answer.finish(result));
  result.timings.decode_s = decode_watch.seconds();
  return result;
}

Status Session::advance(const GenerateRequest& request, Answer& answer,
                        std::optional<TokenId>& token, GenerateResult& result) {
  std::span<const TokenId> draft;
  // Every row is followed by a token, for which the answer and so the context must have room.
  if (request.drafter != nullptr)
    draft = request.drafter->draft(std::min(request.max_draft, answer.room() - 1));
  std::vector<TokenId> tokens;
  tokens.reserve(1 + draft.size());
  tokens.push_back(*token);
  tokens.insert(tokens.end(), draft.begin(), draft.end());
  std::size_t n_kept = 0;
  const Stopwatch watch;
  double step_s =
      0;  // of the model: choosing and reading tokens takes what it takes without guesses
  const auto accept = [&](const StepLogits& logits, std::span<std::size_t> kept) {
    step_s = watch.seconds();
    // Row i is what the model says after tokens[i]. What the sampler makes of it, from the same
    // random numbers as ever, is the answer; a guess is right if it is just that.
    do {
      token = answer.next(logits.row(n_kept++));
    } while (token && n_kept < tokens.size() && tokens[n_kept] == *token);
    kept[0] = n_kept;
  };
  const auto step = [&] {
    const StepItem item{.sequence = sequence_, .tokens = tokens, .logits = LogitsWanted::kAll};
    return engine_.step(std::span(&item, 1), accept);
  };
  auto done = step();
  const bool failed = !done;
  if (failed && tokens.size() > 1) {  // for want of pages, or numbers of a guess overflowed
    tokens.erase(tokens.begin() + 1, tokens.end());
    done = step();
  }
  if (!done) return fail(std::move(done).error());

  if (request.drafter != nullptr && !failed) request.drafter->step_took(tokens.size(), step_s);
  cached_.insert(cached_.end(), tokens.begin(),
                 tokens.begin() + static_cast<std::ptrdiff_t>(n_kept));
  result.timings.decode_tokens += n_kept;
  if (tokens.size() > 1) {
    ++result.speculation->steps;
    result.speculation->drafted += tokens.size() - 1;
    result.speculation->accepted += n_kept - 1;
  }
  return {};
}

}  // namespace quire
