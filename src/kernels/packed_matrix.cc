#include "kernels/packed_matrix.h"

#include <cstring>
#include <vector>

#include "base/float16.h"
#include "base/math.h"
#include "kernels/quant_spec.h"
#include "kernels/weight_blocks.h"

namespace quire {
namespace {

PackedFormat format_of(TensorType type, Precision precision) {
  if (precision == Precision::kReference) return PackedFormat::kF32;
  switch (type) {
    case TensorType::kF32:
      return PackedFormat::kF32;
    case TensorType::kF16:
      return PackedFormat::kF16;
    case TensorType::kBF16:
      return PackedFormat::kBF16;
    case TensorType::kQ4_0:
      return PackedFormat::kQ4;
    case TensorType::kQ4_1:
      return PackedFormat::kQ4M;
    case TensorType::kQ5_0:
      return PackedFormat::kQ5;
    case TensorType::kQ5_1:
      return PackedFormat::kQ5M;
    case TensorType::kQ8_0:
    case TensorType::kIQ4_NL:
      return PackedFormat::kQ8;
    case TensorType::kQ2_K:
      return PackedFormat::kK2;
    case TensorType::kQ3_K:
      return PackedFormat::kK3;
    case TensorType::kQ4_K:
      return PackedFormat::kK4;
    case TensorType::kQ5_K:
      return PackedFormat::kK5;
    case TensorType::kQ6_K:
      return PackedFormat::kK6;
  }
  return PackedFormat::kF32;
}

std::size_t panel_bytes_of(PackedFormat format, std::size_t n_cols) {
  switch (format) {
    case PackedFormat::kF32:
      return n_cols * kPanelRows * 4;
    case PackedFormat::kF16:
    case PackedFormat::kBF16:
      return round_up(n_cols * kPanelRows * 2, kLineBytes);
    default: {
      const QuantSpec spec = quant_spec(format);
      return ceil_div(n_cols / kQuantBlock, spec.chunk_blocks()) * spec.chunk_bytes();
    }
  }
}

/// The rows of one panel: source bytes of each, up to 16 of them.
struct PanelRows {
  TensorType type;
  const std::byte* data;  // of the panel's first row
  std::size_t row_bytes;
  std::size_t count;
  std::size_t n_cols;
};

/// [k][16] in f32, or copied as it is when the source is the 16-bit format of the panel.
void pack_float(const PanelRows& rows, PackedFormat format, std::byte* panel) {
  std::vector<float> row(rows.n_cols);
  for (std::size_t r = 0; r < rows.count; ++r) {
    const std::byte* source = rows.data + r * rows.row_bytes;
    if (format == PackedFormat::kF32) {
      dequantize(rows.type, source, rows.n_cols, row.data());
      auto* out = reinterpret_cast<float*>(panel);
      for (std::size_t k = 0; k < rows.n_cols; ++k) out[k * kPanelRows + r] = row[k];
    } else {
      for (std::size_t k = 0; k < rows.n_cols; ++k) {
        std::memcpy(panel + (k * kPanelRows + r) * 2, source + k * 2, 2);
      }
    }
  }
}

using Lines = std::uint8_t[8][kLineBytes];

/// Eight lines of stored weights (one byte each) to `bits` bits; unpack_line is the inverse.
void write_lines(const Lines& lines, int bits, std::uint8_t* out) {
  if (bits == 8) {
    std::memcpy(out, lines, sizeof(Lines));
    return;
  }
  const auto field = [&](std::size_t line, std::size_t i, int from, int width) {
    return (lines[line][i] >> from) & ((1 << width) - 1);
  };
  const int low = bits < 4 ? 2 : 4;  // the first planes hold this many low bits
  const std::size_t per_plane = bits < 4 ? 4 : 2;
  const std::size_t n_planes = 8 / per_plane;
  for (std::size_t plane = 0; plane < n_planes; ++plane, out += kLineBytes) {
    for (std::size_t i = 0; i < kLineBytes; ++i) {
      int byte = 0;
      for (std::size_t j = 0; j < per_plane; ++j) {
        const std::size_t line = low == 4 ? plane + 4 * j : 4 * plane + j;
        byte |= field(line, i, 0, low) << (low * static_cast<int>(j));
      }
      out[i] = static_cast<std::uint8_t>(byte);
    }
  }
  const int high = bits - low;  // 0, 1 or 2 more bits per weight, in planes of their own
  for (std::size_t first = 0; high > 0 && first < 8; first += 8 / static_cast<std::size_t>(high)) {
    for (std::size_t i = 0; i < kLineBytes; ++i) {
      int byte = 0;
      for (std::size_t j = 0; j < 8 / static_cast<std::size_t>(high); ++j) {
        byte |= field(first + j, i, low, high) << (high * static_cast<int>(j));
      }
      out[i] = static_cast<std::uint8_t>(byte);
    }
    out += kLineBytes;
  }
}

/// The integer scales and minima of block b of a K entry, of one row.
void write_sub_scales(const QuantSpec& spec, const WeightBlock& entry, std::size_t b, std::size_t r,
                      std::byte* sub) {
  const auto groups = static_cast<std::size_t>(spec.groups);
  for (std::size_t g = 0; g < groups; ++g) {
    std::memcpy(sub + g * kPanelRows + r, &entry.sub_scale[b * groups + g], 1);
    if (!spec.has_min) continue;
    std::memcpy(sub + (groups + g) * kPanelRows + r, &entry.sub_min[b * groups + g], 1);
  }
}

void pack_quantized(const PanelRows& rows, PackedFormat format, std::byte* panel) {
  const QuantSpec spec = quant_spec(format);
  const TensorTypeInfo& info = tensor_type_info(rows.type);
  const std::size_t entry_blocks = info.block_size / kQuantBlock;
  std::vector<WeightBlock> entry(kPanelRows);  // rows that do not exist stay zero
  for (std::size_t block = 0; block < rows.n_cols / kQuantBlock; block += entry_blocks) {
    const std::size_t in_chunk = block % spec.chunk_blocks();
    std::byte* chunk = panel + block / spec.chunk_blocks() * spec.chunk_bytes();
    std::byte* head = chunk + in_chunk * spec.head_bytes();
    const std::size_t offset = block / entry_blocks * info.block_bytes;
    for (std::size_t r = 0; r < rows.count; ++r) {
      read_weight_block(rows.type, rows.data + r * rows.row_bytes + offset, entry[r]);
      std::memcpy(head + 2 * r, &entry[r].d, 2);
      if (spec.has_min) std::memcpy(head + 2 * (kPanelRows + r), &entry[r].m, 2);
    }
    for (std::size_t b = 0; b < entry_blocks; ++b) {
      Lines lines;
      for (std::size_t r = 0; r < kPanelRows; ++r) {
        for (std::size_t line = 0; line < 8; ++line) {
          std::memcpy(&lines[line][4 * r], &entry[r].q[b * kQuantBlock + 4 * line], 4);
        }
        if (!spec.is_super) continue;
        write_sub_scales(spec, entry[r], b, r, chunk + spec.head_bytes() + b * spec.sub_bytes());
      }
      std::byte* out = chunk + spec.meta_bytes() + (in_chunk + b) * spec.line_bytes();
      write_lines(lines, spec.bits, reinterpret_cast<std::uint8_t*>(out));
    }
  }
}

}  // namespace

Result<PackedMatrix> PackedMatrix::pack(TensorType type, const std::byte* data, std::size_t n_rows,
                                        std::size_t n_cols, Precision precision, ThreadPool& pool) {
  PackedMatrix matrix;
  matrix.n_rows_ = n_rows;
  matrix.n_cols_ = n_cols;
  matrix.format_ = format_of(type, precision);
  matrix.panel_bytes_ = panel_bytes_of(matrix.format_, n_cols);
  QUIRE_ASSIGN_OR_RETURN(matrix.memory_,
                         MappedMemory::allocate(matrix.n_panels() * matrix.panel_bytes_));
  const TensorTypeInfo& info = tensor_type_info(type);
  const std::size_t row_bytes = n_cols / info.block_size * info.block_bytes;
  pool.run([&](ThreadPool::Worker& worker) {
    const Range panels = worker.share(matrix.n_panels());
    for (std::size_t p = panels.begin; p < panels.end; ++p) {
      const std::size_t row = p * kPanelRows;
      const std::size_t count = n_rows - row < kPanelRows ? n_rows - row : kPanelRows;
      const PanelRows rows = {type, data + row * row_bytes, row_bytes, count, n_cols};
      std::byte* panel = matrix.memory_.data() + p * matrix.panel_bytes_;
      if (matrix.wants_int8()) {
        pack_quantized(rows, matrix.format_, panel);
      } else {
        pack_float(rows, matrix.format_, panel);
      }
    }
  });
  return matrix;
}

}  // namespace quire
