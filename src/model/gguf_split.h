#pragma once
// Models split over several files: NAME-00001-of-0000N.gguf, as llama.cpp's gguf-split writes them.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "model/gguf_shard.h"

namespace quire {

struct GgufSplit {
  std::uint64_t index = 0;  // from 0
  std::uint64_t count = 1;
  std::optional<std::uint64_t> n_tensors;  // of all shards together
};

inline constexpr std::uint64_t kMaxGgufShards = 9999;

/// What the split.* keys say; count 1 if the file is whole.
Result<GgufSplit> gguf_split_of(const GgufShard& shard, std::string_view name);

/// The path of shard `index` of the set whose first shard is `first`; an error if the name of
/// `first` is not NAME-00001-of-0000N.gguf with N = count.
Result<std::filesystem::path> gguf_shard_path(const std::filesystem::path& first,
                                              std::uint64_t index, std::uint64_t count);

/// The first shard opens the set: refuses any other, naming the file to open instead.
Status check_first_shard(const std::filesystem::path& path, const GgufSplit& split);

/// Whether `later` belongs at place `index` of the set that `first` opens.
Status check_later_shard(const GgufSplit& first, const GgufSplit& later, std::uint64_t index,
                         std::string_view name);

}  // namespace quire
