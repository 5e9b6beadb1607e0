#include "model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace quire {
namespace {

/// The dimension whose wavelength fits `rotations` times into the original context (YaRN, eq. 14
/// and appendix A.1, inverted).
double correction_dim(const RopeSpec& spec, double rotations) {
  const auto dim = static_cast<double>(spec.rope_dim);
  const auto context = static_cast<double>(spec.original_context);
  return dim * std::log(context / (rotations * 2 * std::numbers::pi)) / (2 * std::log(spec.base));
}

/// How far dimension i keeps its own frequency: 1 extrapolates, 0 interpolates ("NTK by parts").
double extrapolation_share(const RopeSpec& spec, std::size_t i) {
  const double low = std::max(0.0, std::floor(correction_dim(spec, spec.beta_fast)));
  const double high = std::min(static_cast<double>(spec.rope_dim) - 1,
                               std::ceil(correction_dim(spec, spec.beta_slow)));
  const double ramp = (static_cast<double>(i) - low) / std::max(0.001, high - low);
  return (1 - std::clamp(ramp, 0.0, 1.0)) * spec.ext_factor;
}

}  // namespace

RopeTable::RopeTable(const RopeSpec& spec) {
  const std::size_t half = spec.rope_dim / 2;
  inv_freq_.resize(half);
  for (std::size_t i = 0; i < half; ++i) {
    double freq =
        std::pow(spec.base, -2.0 * static_cast<double>(i) / static_cast<double>(spec.rope_dim));
    if (!spec.freq_factors.empty()) freq /= static_cast<double>(spec.freq_factors[i]);
    if (spec.scaling == RopeScaling::kLinear) {
      freq /= spec.factor;
    } else if (spec.scaling == RopeScaling::kYarn) {
      const double keep = extrapolation_share(spec, i);
      freq = freq / spec.factor * (1 - keep) + freq * keep;
    }
    // Rounded as the implementations that trained the models round it: at a large position the
    // rounding itself is part of the angle.
    inv_freq_[i] = static_cast<float>(freq);
  }
  if (spec.scaling == RopeScaling::kYarn) {
    // The temperature on the logits (YaRN, eq. 22), moved into cos and sin.
    const double temperature = spec.ext_factor != 0 ? 1 + 0.1 * std::log(spec.factor) : 1;
    magnitude_ = spec.attn_factor * temperature;
  }
}

void RopeTable::fill(std::size_t position, float* cos, float* sin) const {
  for (std::size_t i = 0; i < inv_freq_.size(); ++i) {
    const double angle = static_cast<double>(position) * static_cast<double>(inv_freq_[i]);
    cos[i] = static_cast<float>(std::cos(angle) * magnitude_);
    sin[i] = static_cast<float>(std::sin(angle) * magnitude_);
  }
}

}  // namespace quire
