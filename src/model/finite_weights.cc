#include "model/finite_weights.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "base/check.h"

namespace quire {
namespace {

/// Where the floats of a block are: `count` of them, of `size` bytes, one after the other.
struct FloatPlaces {
  std::size_t offset = 0;
  std::size_t count = 0;
  std::size_t size = 2;
  std::uint32_t exponent = 0x7c00;  // all ones: infinite or NaN
};

FloatPlaces float_places(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return {0, 1, 4, 0x7f800000};
    case TensorType::kBF16:
      return {0, 1, 2, 0x7f80};
    case TensorType::kF16:
    case TensorType::kQ4_0:
    case TensorType::kQ5_0:
    case TensorType::kQ8_0:
    case TensorType::kIQ4_NL:
      return {.offset = 0, .count = 1};
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      return {.offset = 0, .count = 2};
    case TensorType::kQ2_K:  // behind 16 sub-scales and 64 bytes of quants
      return {.offset = 80, .count = 2};
    case TensorType::kQ3_K:  // 32 high bits, 64 low bits, 12 sub-scales
      return {.offset = 108, .count = 1};
    case TensorType::kQ6_K:  // 128 low bits, 64 high bits, 16 sub-scales
      return {.offset = 208, .count = 1};
  }
  check_failed("a type that float_places knows", __FILE__, __LINE__);
}

bool block_is_finite(const std::byte* block, const FloatPlaces& places) {
  bool finite = true;
  for (std::size_t i = 0; i < places.count; ++i) {
    std::uint32_t bits = 0;  // little-endian, as the file and every CPU this runs on
    std::memcpy(&bits, block + places.offset + i * places.size, places.size);
    finite &= (bits & places.exponent) != places.exponent;
  }
  return finite;
}

}  // namespace

std::optional<std::size_t> find_not_finite(TensorType type, std::span<const std::byte> data) {
  const TensorTypeInfo& info = tensor_type_info(type);
  const FloatPlaces places = float_places(type);
  for (std::size_t i = 0; i < data.size() / info.block_bytes; ++i)
    if (!block_is_finite(data.data() + i * info.block_bytes, places)) return i * info.block_size;
  return std::nullopt;
}

std::optional<std::size_t> find_not_finite(TensorType type, std::span<const std::byte> data,
                                           ThreadPool& pool) {
  const TensorTypeInfo& info = tensor_type_info(type);
  const std::size_t n_blocks = data.size() / info.block_bytes;
  constexpr auto kNone = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> first_bad(pool.size(), kNone);
  pool.run([&](ThreadPool::Worker& worker) {
    const Range share = worker.share(n_blocks);
    const auto found = find_not_finite(
        type,
        data.subspan(share.begin * info.block_bytes, (share.end - share.begin) * info.block_bytes));
    if (found) first_bad[worker.index()] = share.begin * info.block_size + *found;
  });
  const std::size_t bad = *std::min_element(first_bad.begin(), first_bad.end());
  return bad == kNone ? std::nullopt : std::optional(bad);
}

}  // namespace quire
