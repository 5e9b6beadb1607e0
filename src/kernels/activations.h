#pragma once
// The int8 form of the inputs of linear layers; docs/kernels.md says why it is what it is.

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"

namespace quire {

/// Columns that share one activation scale.
inline constexpr std::size_t kActivationBlock = 32;

/// Tokens that lie side by side, so that a tile of them is one stream of memory.
inline constexpr std::size_t kTokenTile = 8;

/// Steps of the first int8 term in one step of the second: a power of two, since every product of
/// the second is multiplied by it.
inline constexpr std::int32_t kCoarseSteps = 128;

/// Columns of an outlier line: those of one line of a packed panel.
inline constexpr std::size_t kOutlierColumns = 4;

/// At most this many of the 8 lines of a block have a second term.
inline constexpr std::size_t kMaxOutlierLines = 2;

/// Price of a second term for a line, in mean amax^2 of the blocks of the row. The n largest lines
/// of a block get one that maximise amax^2 - rest^2 - n * price, rest being the largest magnitude
/// of the other lines; none if nothing is gained.
inline constexpr double kOutlierGain = 0.25;

/// x ~ scale * (kCoarseSteps * coarse + q), with one scale per token and block of 32 columns. The
/// few largest lines of a block are outliers: they alone have a second, coarse term, and the scale
/// follows the largest of the other values. Value i of block b of token t lies at
/// `values(t, b) + i`, what belongs to the whole block at `block(t, b)`.
///
/// Memory is used again and again, by other cores too, so what is zero already is not written
/// again: `coarse` and `lines` begin as zeros, and only quantize_row changes them.
struct Int8Activations {
  std::int8_t* q = nullptr;       // within [-127, 127]
  std::int8_t* coarse = nullptr;  // within [-127, 127], zero outside the outlier lines
  std::uint8_t* lines = nullptr;  // bit l: columns 4 l … 4 l + 3 are an outlier line
  float* scale = nullptr;
  std::int32_t* sum = nullptr;       // of kCoarseSteps * coarse + q
  std::int32_t* half_sum = nullptr;  // the same over the first 16 columns
  float* scaled_sum = nullptr;       // scale * float(sum)
  std::size_t n_blocks = 0;

  constexpr std::size_t block(std::size_t token, std::size_t b) const {
    return (token / kTokenTile * n_blocks + b) * kTokenTile + token % kTokenTile;
  }
  constexpr std::size_t values(std::size_t token, std::size_t b) const {
    return block(token, b) * kActivationBlock;
  }
};

/// Memory for them, grown to the largest size so far.
class Int8Buffer {
 public:
  void resize(std::size_t n_tokens, std::size_t n_cols) {
    const std::size_t n_blocks = n_cols / kActivationBlock;
    const std::size_t n = (n_tokens + kTokenTile - 1) / kTokenTile * kTokenTile * n_blocks;
    view_ = {.q = q_.resize(n * kActivationBlock),
             .coarse = coarse_.resize_zeroed(n * kActivationBlock),
             .lines = lines_.resize_zeroed(n),
             .scale = scale_.resize(n),
             .sum = sum_.resize(n),
             .half_sum = half_sum_.resize(n),
             .scaled_sum = scaled_sum_.resize(n),
             .n_blocks = n_blocks};
  }
  const Int8Activations& view() const { return view_; }

 private:
  Int8Activations view_;
  ScratchArray<std::int8_t> q_, coarse_;
  ScratchArray<std::uint8_t> lines_;
  ScratchArray<float> scale_, scaled_sum_;
  ScratchArray<std::int32_t> sum_, half_sum_;
};

}  // namespace quire
