#include "engine/service/branch.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

GenerateRequest answer_request(const ServiceRequest& request) {
  GenerateRequest out;
  out.max_tokens = request.max_tokens;
  out.ignore_eos = request.ignore_eos;
  return out;
}

std::size_t room_behind(const ServiceRequest& request, const Engine& engine) {
  return engine.options().context - request.prompt.size();
}

}  // namespace

Result<std::unique_ptr<Branch>> Branch::create(const ServiceRequest& request, std::size_t choice,
                                               const Engine& engine) {
  SamplerParams params = request.sampling;
  params.seed += choice;
  params.logprobs = params.logprobs || request.best_of > request.n;
  QUIRE_ASSIGN_OR_RETURN(Sampler sampler, Sampler::create(params, engine.spec().n_vocab));
  QUIRE_ASSIGN_OR_RETURN(StopMatcher stops, StopMatcher::create(request.stop));
  std::optional<Grammar> grammar;
  if (request.grammar) {
    QUIRE_ASSIGN_OR_RETURN(grammar, request.grammar->fork());
  }
  return std::unique_ptr<Branch>(new Branch(request, choice, engine, std::move(sampler),
                                            std::move(stops), std::move(grammar)));
}

Branch::Branch(const ServiceRequest& request, std::size_t choice, const Engine& engine,
               Sampler sampler, StopMatcher stops, std::optional<Grammar> grammar)
    : choice_(choice),
      tokens_(request.prompt),
      request_(answer_request(request)),
      grammar_(std::move(grammar)),
      sampler_(std::move(sampler)),
      stops_(std::move(stops)),
      answer_(request_, sink_, engine.tokenizer(), sampler_, stops_, room_behind(request, engine)) {
  if (grammar_) request_.grammar = &*grammar_;
  max_length_ = tokens_.size() + answer_.room();
  sink_.on_text = [this](std::string_view text) {
    text_ += text;
    return true;
  };
  for (const TokenId token : tokens_) sampler_.accept(token);
}

void Branch::advance(std::span<const float> logits) {
  QUIRE_CHECK(!ended_);
  if (const auto token = answer_.next(logits))
    tokens_.push_back(*token);
  else
    finish();
}

void Branch::cancel() {
  if (ended_) return;
  finish();
  result_.finish_reason = FinishReason::kCancelled;
}

void Branch::break_off(Error error) {
  if (ended_) return;
  answer_.break_off(std::move(error));
  finish();
}

void Branch::finish() {
  auto finished = answer_.finish(result_);
  ended_ = true;
  if (!finished) result_.finish_reason = FinishReason::kError;
  error_ = finished ? std::move(result_.error) : std::move(finished).error();
}

double Branch::mean_logprob() const {
  double sum = 0;
  for (const SampledToken& token : generated()) sum += token.logprob;
  return sum / static_cast<double>(std::max<std::size_t>(n_generated(), 1));
}

ChoiceDelta Branch::take_delta() {
  taken_text_ = std::exchange(text_, {});
  const auto tokens = generated().subspan(n_taken_);
  n_taken_ += tokens.size();
  return {.choice = choice_, .text = taken_text_, .tokens = tokens};
}

}  // namespace quire
