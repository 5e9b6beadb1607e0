#include "model/gguf.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/mapped_file.h"
#include "model/gguf_shard.h"
#include "model/gguf_split.h"

namespace quire {
namespace {

// Positions of `items` in the order of their names: find without hashing text from outside.
template <typename Item>
std::vector<std::uint32_t> sorted_by(const std::vector<Item>& items, std::string Item::* name) {
  std::vector<std::uint32_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return items[a].*name < items[b].*name; });
  return order;
}

template <typename Item>
const Item* find_in(const std::vector<Item>& items, const std::vector<std::uint32_t>& order,
                    std::string Item::* name, std::string_view wanted) {
  const auto at = std::lower_bound(
      order.begin(), order.end(), wanted,
      [&](std::uint32_t i, std::string_view text) { return items[i].*name < text; });
  if (at == order.end() || items[*at].*name != wanted) return nullptr;
  return &items[*at];
}

}  // namespace

std::size_t GgufArray::size() const {
  return std::visit([](const auto& v) { return v.size(); }, items);
}

std::uint64_t GgufTensor::n_elements() const {
  std::uint64_t n = 1;  // the product was checked when the file was read
  for (const std::uint64_t each : ne) n *= each;
  return n;
}

void drop_resident(const GgufTensor& tensor) {
  if (tensor.is_mapped) drop_resident(tensor.data);
}

struct GgufFile::Impl {
  std::string name;
  std::vector<MappedFile> files;
  std::vector<GgufKeyValue> metadata;
  std::vector<GgufTensor> tensors;
  std::vector<std::uint32_t> keys_sorted;
  std::vector<std::uint32_t> tensors_sorted;
  std::uint64_t file_bytes = 0;

  /// Adds a shard's tensors; metadata comes from the first one.
  void append(GgufShard shard, std::uint64_t bytes) {
    if (file_bytes == 0) metadata = std::move(shard.metadata);
    std::move(shard.tensors.begin(), shard.tensors.end(), std::back_inserter(tensors));
    file_bytes += bytes;
  }

  /// The rest of a split model, whose first shard is already here.
  Status append_shards(const std::filesystem::path& first, const GgufSplit& split) {
    // One that is missing is missed before the others are read.
    std::vector<std::string> names;
    for (std::uint64_t i = 1; i < split.count; ++i) {
      QUIRE_ASSIGN_OR_RETURN(const auto path, gguf_shard_path(first, i, split.count));
      QUIRE_ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
      names.push_back(path.string());
      files.push_back(std::move(file));
    }
    for (std::uint64_t i = 1; i < split.count; ++i) {
      const std::string& later_name = names[i - 1];
      const auto bytes = files[files.size() - names.size() + i - 1].bytes();
      QUIRE_ASSIGN_OR_RETURN(auto shard,
                             read_gguf_shard(bytes, later_name, kMaxLaterMetadataBytes));
      quire::drop_resident(bytes);  // or each of thousands would keep the pages that were read
      QUIRE_ASSIGN_OR_RETURN(const auto later, gguf_split_of(shard, later_name));
      QUIRE_RETURN_IF_ERROR(check_later_shard(split, later, i, later_name));
      append(std::move(shard), bytes.size());
      if (tensors.size() > kMaxGgufTensors)
        return fail(ErrorCode::kUnsupported, "{}: with it there are {} tensors, at most {} allowed",
                    later_name, tensors.size(), kMaxGgufTensors);
    }
    if (split.n_tensors && *split.n_tensors != tensors.size())
      return fail(ErrorCode::kInvalidData,
                  "{}: 'split.tensors.count' is {}, but the {} shards hold {} tensors", name,
                  *split.n_tensors, split.count, tensors.size());
    return {};
  }

  Status index() {
    keys_sorted = sorted_by(metadata, &GgufKeyValue::key);
    tensors_sorted = sorted_by(tensors, &GgufTensor::name);
    // Within one shard names are distinct; between shards they must be too.
    for (std::size_t i = 1; i < tensors_sorted.size(); ++i) {
      const GgufTensor& tensor = tensors[tensors_sorted[i]];
      if (tensor.name == tensors[tensors_sorted[i - 1]].name)
        return fail(ErrorCode::kInvalidData, "{}: tensor '{}' (at byte {}) is in two shards", name,
                    tensor.name, tensor.offset);
    }
    return {};
  }
};

GgufFile::GgufFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

Result<GgufFile> GgufFile::open(const std::filesystem::path& path) {
  auto impl = std::make_unique<Impl>();
  impl->name = path.string();
  QUIRE_ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
  QUIRE_ASSIGN_OR_RETURN(auto shard, read_gguf_shard(file.bytes(), impl->name));
  QUIRE_ASSIGN_OR_RETURN(const auto split, gguf_split_of(shard, impl->name));
  QUIRE_RETURN_IF_ERROR(check_first_shard(path, split));
  impl->append(std::move(shard), file.bytes().size());
  impl->files.push_back(std::move(file));
  if (split.count > 1) QUIRE_RETURN_IF_ERROR(impl->append_shards(path, split));
  for (GgufTensor& tensor : impl->tensors) tensor.is_mapped = true;
  QUIRE_RETURN_IF_ERROR(impl->index());
  return GgufFile(std::move(impl));
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string_view name) {
  auto impl = std::make_unique<Impl>();
  impl->name = name;
  QUIRE_ASSIGN_OR_RETURN(auto shard, read_gguf_shard(bytes, name));
  QUIRE_ASSIGN_OR_RETURN(const auto split, gguf_split_of(shard, name));
  if (split.count > 1)
    return fail(ErrorCode::kUnsupported, "{}: shard {} of {} cannot be read without the others",
                name, split.index + 1, split.count);
  impl->append(std::move(shard), bytes.size());
  QUIRE_RETURN_IF_ERROR(impl->index());
  return GgufFile(std::move(impl));
}

std::span<const GgufKeyValue> GgufFile::metadata() const { return impl_->metadata; }
void GgufFile::forget_metadata() {
  impl_->metadata = std::vector<GgufKeyValue>();  // {} would keep the memory
  impl_->keys_sorted = std::vector<std::uint32_t>();
  drop_resident();
}
void GgufFile::drop_resident() const {
  for (const MappedFile& file : impl_->files) quire::drop_resident(file.bytes());
}
std::span<const GgufTensor> GgufFile::tensors() const { return impl_->tensors; }
std::uint64_t GgufFile::file_bytes() const { return impl_->file_bytes; }
const std::string& GgufFile::name() const { return impl_->name; }

const GgufKeyValue* GgufFile::find_key(std::string_view key) const {
  return find_in(impl_->metadata, impl_->keys_sorted, &GgufKeyValue::key, key);
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const GgufKeyValue* kv = find_key(key);
  return kv == nullptr ? nullptr : &kv->value;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  return find_in(impl_->tensors, impl_->tensors_sorted, &GgufTensor::name, name);
}

}  // namespace quire
