#include "engine/service/embedding_queue.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace quire {
namespace {

/// Of length 1, as OpenAI's embeddings are, so that a dot product is a cosine.
std::vector<float> normalised(std::span<const double> vector) {
  double squares = 0;
  for (const double x : vector) squares += x * x;
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  std::vector<float> out;
  out.reserve(vector.size());
  for (const double x : vector) out.push_back(static_cast<float>(x * scale));
  return out;
}

}  // namespace

void EmbeddingQueue::step(bool alone) {
  drop_cancelled();
  if (waiting_.empty()) return;
  const EmbeddingRequest& request = waiting_.front();
  if (!sequence_) {
    sequence_ = engine_.add_sequence();
    length_ = 0;
    sum_.assign(engine_.spec().hidden_dim, 0.0);
  }
  const auto tokens = std::span(request.tokens).subspan(length_);
  const auto chunk = tokens.first(std::min(tokens.size(), chunk_));
  const auto hidden = engine_.hidden_step(*sequence_, chunk);
  if (!hidden) {
    // Its pages may be what others wait for; it begins again when there are more.
    drop_sequence();
    starved_ = hidden.error().code == ErrorCode::kOutOfMemory && !alone;
    if (!starved_) end(fail(hidden.error()));
    return;
  }
  starved_ = false;
  length_ += chunk.size();
  const std::size_t dim = sum_.size();
  for (std::size_t t = 0; t < chunk.size(); ++t) {
    if (request.pooling == Pooling::kLast &&
        length_ - chunk.size() + t + 1 != request.tokens.size())
      continue;
    for (std::size_t i = 0; i < dim; ++i) sum_[i] += static_cast<double>((*hidden)[t * dim + i]);
  }
  if (length_ == request.tokens.size()) {
    drop_sequence();
    end(normalised(sum_));
  }
}

void EmbeddingQueue::drop_cancelled() {
  while (!waiting_.empty() && waiting_.front().cancelled && *waiting_.front().cancelled) {
    drop_sequence();
    starved_ = false;
    end(fail(ErrorCode::kUnavailable, "nobody wants it any more"));
  }
}

void EmbeddingQueue::drop_sequence() {
  if (sequence_) engine_.release(*sequence_);
  sequence_.reset();
}

void EmbeddingQueue::end(Result<std::vector<float>> result) {
  const auto done = std::move(waiting_.front().done);
  waiting_.pop_front();
  done(std::move(result));
}

void EmbeddingQueue::cancel_all() {
  drop_sequence();
  while (!waiting_.empty()) end(fail(ErrorCode::kUnavailable, "the service has ended"));
}

}  // namespace quire
