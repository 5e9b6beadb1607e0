#include "engine/answer.h"

#include <algorithm>
#include <utility>

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

Answer::Answer(const GenerateRequest& request, const GenerateSink& sink, const Tokenizer& tokenizer,
               Sampler& sampler, StopMatcher& stops, std::size_t room)
    : request_(request),
      sink_(sink),
      tokenizer_(tokenizer),
      sampler_(sampler),
      stops_(stops),
      // The answer continues the prompt: a SentencePiece space in front belongs to it.
      decoder_(tokenizer, /*show_special=*/false, /*continues=*/true),
      limit_(request.max_tokens == 0 ? room : std::min(request.max_tokens, room)) {}

Result<SampledToken> Answer::sample(std::span<const float> logits) {
  if (request_.grammar == nullptr) return sampler_.sample(logits);
  QUIRE_ASSIGN_OR_RETURN(const auto allowed, request_.grammar->allowed());
  QUIRE_ASSIGN_OR_RETURN(auto sampled, sampler_.sample(logits, allowed));
  QUIRE_RETURN_IF_ERROR(request_.grammar->accept(sampled.token));
  return sampled;
}

std::optional<TokenId> Answer::next(std::span<const float> logits) {
  auto sampled = sample(logits);
  if (!sampled) {
    break_off(std::move(sampled).error());
    return std::nullopt;
  }
  const TokenId token = sampled->token;
  sampler_.accept(token);
  if (request_.drafter != nullptr) request_.drafter->append(token);
  tokens_.push_back(std::move(*sampled));
  if (tokenizer_.is_end_of_generation(token) && !request_.ignore_eos)
    return end(FinishReason::kStop);
  emit(stops_.push(decoder_.push(token)));
  if (stops_.stopped()) return end(FinishReason::kStop);
  if (request_.grammar != nullptr && request_.grammar->complete()) return end(FinishReason::kStop);
  if (!wanted_) return end(FinishReason::kCancelled);
  if (tokens_.size() >= limit_) return end(FinishReason::kLength);
  return token;
}

void Answer::break_off(Error error) {
  reason_ = FinishReason::kError;
  error_ = std::move(error);
}

std::optional<TokenId> Answer::end(FinishReason reason) {
  reason_ = reason;
  return std::nullopt;
}

void Answer::emit(const std::string& text) {
  text_ += text;
  if (sink_.on_text) wanted_ = sink_.on_text(text);
}

Status Answer::finish(GenerateResult& result) {
  if (error_ && tokens_.empty()) return fail(std::move(*error_));
  if (!stops_.stopped()) {
    emit(stops_.push(decoder_.finish()));
    emit(stops_.finish());
    if (stops_.stopped()) reason_ = FinishReason::kStop;
  }
  result.text = std::move(text_);
  result.tokens = std::move(tokens_);
  result.finish_reason = reason_;
  result.error = std::move(error_);
  return {};
}

}  // namespace quire
