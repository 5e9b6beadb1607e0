#pragma once
// The key-value section of a GGUF file: first a walk that checks every record and allocates
// nothing sized by the file, then the decoding of what passed.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"
#include "model/gguf_cursor.h"

namespace quire {

/// GGUF's own ids.
enum class GgufType : std::uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

/// A key-value record that has been checked but not decoded.
struct GgufRawKeyValue {
  std::string_view key;
  std::uint64_t offset = 0;         // of the record
  std::uint64_t value_offset = 0;   // of the value, or of an array's first item
  GgufType type = GgufType::kBool;  // of the value, or of an array's items
  bool is_array = false;
  std::uint64_t count = 1;
};

/// Checks `n_keys` records and leaves the cursor behind them. `name` stands for the file. Arrays
/// that would need more than `max_bytes` once decoded are refused.
Result<std::vector<GgufRawKeyValue>> walk_gguf_metadata(ByteCursor& cursor, std::uint64_t n_keys,
                                                        std::uint64_t max_bytes,
                                                        std::string_view name);

GgufKeyValue decode_gguf_key_value(std::span<const std::byte> file, const GgufRawKeyValue& raw);

}  // namespace quire
