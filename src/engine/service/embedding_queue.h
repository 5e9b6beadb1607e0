#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "engine/service/service.h"

namespace quire {

/// Texts to be embedded, one chunk of one of them between two steps of the batch, so that whoever
/// decodes waits no longer than for a chunk.
class EmbeddingQueue {
 public:
  /// `chunk`: tokens of a step.
  EmbeddingQueue(Engine& engine, std::size_t chunk) : engine_(engine), chunk_(chunk) {}

  void add(EmbeddingRequest request) { waiting_.push_back(std::move(request)); }
  bool empty() const { return waiting_.empty(); }
  /// The first could not go on for want of pages.
  bool starved() const { return starved_; }
  bool holds_pages() const { return sequence_.has_value(); }

  /// Computes one chunk of the first. `alone`: nothing else has pages that may come free, so that
  /// one that does not fit now never will.
  void step(bool alone);
  void cancel_all();

 private:
  void drop_cancelled();
  void end(Result<std::vector<float>> result);
  void drop_sequence();

  Engine& engine_;
  std::size_t chunk_;
  std::deque<EmbeddingRequest> waiting_;
  // Of the first:
  std::optional<SequenceId> sequence_;
  std::size_t length_ = 0;
  bool starved_ = false;
  std::vector<double> sum_;
};

}  // namespace quire
