#include "model/gguf_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "model/gguf_text.h"

namespace quire {
namespace {

// "-00001-of-00003.gguf" for index 0 of 3.
std::string shard_suffix(std::uint64_t index, std::uint64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", index + 1, count);
}

Result<std::optional<std::uint64_t>> split_number(const GgufShard& shard, std::string_view key,
                                                  std::uint64_t max, std::string_view name) {
  const auto kv = std::find_if(shard.metadata.begin(), shard.metadata.end(),
                               [&](const GgufKeyValue& each) { return each.key == key; });
  if (kv == shard.metadata.end()) return std::nullopt;
  std::optional<std::uint64_t> value;
  if (const auto* u = std::get_if<std::uint64_t>(&kv->value)) value = *u;
  if (const auto* i = std::get_if<std::int64_t>(&kv->value); i != nullptr && *i >= 0)
    value = static_cast<std::uint64_t>(*i);
  if (!value || *value > max)
    return fail(ErrorCode::kInvalidData, "{}: key '{}' at byte {} is no integer from 0 to {}", name,
                key, kv->offset, max);
  return value;
}

}  // namespace

Result<GgufSplit> gguf_split_of(const GgufShard& shard, std::string_view name) {
  QUIRE_ASSIGN_OR_RETURN(const auto count,
                         split_number(shard, "split.count", kMaxGgufShards, name));
  if (!count || *count <= 1) return GgufSplit{};
  QUIRE_ASSIGN_OR_RETURN(const auto index, split_number(shard, "split.no", *count - 1, name));
  if (!index)
    return fail(ErrorCode::kInvalidData, "{}: key 'split.count' is {}, but 'split.no' is missing",
                name, *count);
  QUIRE_ASSIGN_OR_RETURN(const auto n_tensors,
                         split_number(shard, "split.tensors.count", kMaxGgufTensors, name));
  return GgufSplit{*index, *count, n_tensors};
}

Result<std::filesystem::path> gguf_shard_path(const std::filesystem::path& first,
                                              std::uint64_t index, std::uint64_t count) {
  const std::string file_name = first.filename().string();
  const std::string suffix = shard_suffix(0, count);
  if (!file_name.ends_with(suffix))
    return fail(
        ErrorCode::kInvalidData,
        "{}: this is shard 1 of {}, so its name must end in '{}' for the others to be found",
        first.string(), count, suffix);
  const std::string stem = file_name.substr(0, file_name.size() - suffix.size());
  return first.parent_path() / (stem + shard_suffix(index, count));
}

Status check_first_shard(const std::filesystem::path& path, const GgufSplit& split) {
  if (split.index == 0) return {};
  const std::string file_name = path.filename().string();
  const std::string suffix = shard_suffix(split.index, split.count);
  const std::string stem =
      file_name.ends_with(suffix) ? file_name.substr(0, file_name.size() - suffix.size()) : "NAME";
  return fail(ErrorCode::kInvalidArgument,
              "{}: this is shard {} of {} of a split model; open the first one, {}{}",
              path.string(), split.index + 1, split.count, stem, shard_suffix(0, split.count));
}

Status check_later_shard(const GgufSplit& first, const GgufSplit& later, std::uint64_t index,
                         std::string_view name) {
  if (later.index != index || later.count != first.count)
    return fail(ErrorCode::kInvalidData,
                "{}: its split.no and split.count say it is shard {} of {}, not shard {} of {}",
                name, later.index + 1, later.count, index + 1, first.count);
  if (later.n_tensors != first.n_tensors)
    return fail(ErrorCode::kInvalidData,
                "{}: its 'split.tensors.count' differs from the first shard's", name);
  return {};
}

}  // namespace quire
