#pragma once

#include <cstddef>
#include <vector>

#include "model/model_spec.h"

namespace quire {

/// The angles of one RopeSpec: inverse frequencies with every scaling applied, and the magnitude
/// YaRN gives to cos and sin.
class RopeTable {
 public:
  explicit RopeTable(const RopeSpec& spec);

  std::size_t half_dim() const { return inv_freq_.size(); }

  /// cos and sin [rope_dim / 2] of one position.
  void fill(std::size_t position, float* cos, float* sin) const;

 private:
  std::vector<float> inv_freq_;  // radians per position
  double magnitude_ = 1;
};

}  // namespace quire
