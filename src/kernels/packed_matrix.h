#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/tensor_type.h"

namespace quire {

/// Rows of a matrix that are computed together: one SIMD lane per output feature.
inline constexpr std::size_t kPanelRows = 16;

enum class Precision : std::uint8_t {
  kFast,       // quantized weights stay quantized, their activations become int8 per 32 columns
  kReference,  // weights dequantized to f32, activations f32
};

/// Storage of a packed matrix; see docs/kernels.md. From kQ8 on, activations are int8.
enum class PackedFormat : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8,  // plain formats: f16 scale per 32 columns, M: and f16 minimum
  kQ4,
  kQ4M,
  kQ5,
  kQ5M,
  kK2,  // K formats: f16 scale (and minimum) per 256 columns, integer ones per 16 or 32
  kK3,
  kK4,
  kK5,
  kK6,
};

/// A weight matrix [n_rows = outputs, n_cols = inputs] repacked at load into 16-row panels.
class PackedMatrix {
 public:
  /// `data` holds n_rows * n_cols elements in row-major order; n_cols is a multiple of the type's
  /// block size. Fails only if memory is refused.
  static Result<PackedMatrix> pack(TensorType type, const std::byte* data, std::size_t n_rows,
                                   std::size_t n_cols, Precision precision, ThreadPool& pool);

  std::size_t n_rows() const { return n_rows_; }
  std::size_t n_cols() const { return n_cols_; }
  std::size_t n_panels() const { return (n_rows_ + kPanelRows - 1) / kPanelRows; }
  PackedFormat format() const { return format_; }
  std::size_t bytes() const { return memory_.size(); }
  const std::byte* panel(std::size_t i) const { return memory_.data() + i * panel_bytes_; }

  /// Whether linear() reads the int8 form of the activations or the f32 form.
  bool wants_int8() const { return format_ >= PackedFormat::kQ8; }

 private:
  std::size_t n_rows_ = 0;
  std::size_t n_cols_ = 0;
  std::size_t panel_bytes_ = 0;
  PackedFormat format_ = PackedFormat::kF32;
  MappedMemory memory_;
};

}  // namespace quire
