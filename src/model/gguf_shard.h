#pragma once
// One GGUF file read and checked; GgufFile joins the shards of a split model.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"

namespace quire {

struct GgufShard {
  std::uint32_t version = 0;
  std::vector<GgufKeyValue> metadata;  // file order, no key twice
  std::vector<GgufTensor> tensors;     // file order, no name twice, no bytes shared
};

/// Limits above any real model, so that a hostile count is refused before it costs anything. A
/// vocabulary of 262,144 tokens with scores, types and half a million merges decodes to 17 MB.
inline constexpr std::uint64_t kMaxGgufKeys = 4096;
inline constexpr std::uint64_t kMaxGgufTensors = 16384;  // of all shards together
inline constexpr std::uint64_t kMaxGgufMetadataBytes = std::uint64_t{24} << 20;  // once decoded
/// Of a shard behind the first, of whose metadata nothing is kept; writers give it three numbers.
inline constexpr std::uint64_t kMaxLaterMetadataBytes = std::uint64_t{64} << 10;
inline constexpr std::uint64_t kMaxGgufKeyBytes = 65535;  // the specification's
inline constexpr std::uint64_t kMaxGgufTensorNameBytes = 256;
inline constexpr std::uint64_t kMaxGgufAlignment = std::uint64_t{1} << 20;

/// `name` stands for the file in messages. Nothing is decoded until the whole file is checked.
Result<GgufShard> read_gguf_shard(std::span<const std::byte> bytes, std::string_view name,
                                  std::uint64_t max_metadata_bytes = kMaxGgufMetadataBytes);

}  // namespace quire
