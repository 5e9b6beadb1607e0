#include "model/gguf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/mapped_file.h"
#include "model/gguf_shard.h"
#include "model/gguf_split.h"
#include "model/gguf_text.h"

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

// The kind of a value, for "expected an unsigned integer, found ...".
std::string kind_of(const GgufValue& value) {
  struct Visitor {
    std::string operator()(std::uint64_t v) const { return fmt::format("the integer {}", v); }
    std::string operator()(std::int64_t v) const { return fmt::format("the integer {}", v); }
    std::string operator()(double v) const { return fmt::format("the number {}", v); }
    std::string operator()(bool) const { return "a boolean"; }
    std::string operator()(const std::string&) const { return "a string"; }
    std::string operator()(const GgufArray& a) const {
      return fmt::format(
          "an array of {} {}", a.size(),
          std::array{"integers", "integers", "numbers", "booleans", "strings"}[a.items.index()]);
    }
  };
  return std::visit(Visitor{}, value);
}

std::optional<std::uint64_t> as_uint(const GgufValue& value) {
  if (const auto* u = std::get_if<std::uint64_t>(&value)) return *u;
  if (const auto* i = std::get_if<std::int64_t>(&value); i != nullptr && *i >= 0)
    return static_cast<std::uint64_t>(*i);
  return std::nullopt;
}

std::span<const std::uint64_t> without_trailing_ones(std::span<const std::uint64_t> ne) {
  while (ne.size() > 1 && ne.back() == 1) ne = ne.first(ne.size() - 1);
  return ne;
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
    for (std::uint64_t i = 1; i < split.count; ++i) {
      QUIRE_ASSIGN_OR_RETURN(const auto path, gguf_shard_path(first, i, split.count));
      QUIRE_ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
      QUIRE_ASSIGN_OR_RETURN(auto shard, read_gguf_shard(file.bytes(), path.string()));
      QUIRE_ASSIGN_OR_RETURN(const auto later, gguf_split_of(shard, path.string()));
      QUIRE_RETURN_IF_ERROR(check_later_shard(split, later, i, path.string()));
      append(std::move(shard), file.bytes().size());
      files.push_back(std::move(file));
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

  const GgufKeyValue* find(std::string_view key) const {
    return find_in(metadata, keys_sorted, &GgufKeyValue::key, key);
  }

  tl::unexpected<Error> wrong(const GgufKeyValue& kv, std::string_view expected) const {
    return fail(ErrorCode::kInvalidData, "{}: key '{}' at byte {}: expected {}, found {}", name,
                kv.key, kv.offset, expected, kind_of(kv.value));
  }

  tl::unexpected<Error> missing(std::string_view key) const {
    return fail(ErrorCode::kNotFound, "{}: key '{}' is missing", name, key);
  }

  /// The value of a key that must hold a T if it is there at all.
  template <typename T>
  Result<std::optional<T>> optional(std::string_view key, std::string_view expected) const {
    const GgufKeyValue* kv = find(key);
    if (kv == nullptr) return std::nullopt;
    const T* value = std::get_if<T>(&kv->value);
    if (value == nullptr) return wrong(*kv, expected);
    return *value;
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
std::span<const GgufTensor> GgufFile::tensors() const { return impl_->tensors; }
std::uint64_t GgufFile::file_bytes() const { return impl_->file_bytes; }
const std::string& GgufFile::name() const { return impl_->name; }

const GgufValue* GgufFile::find(std::string_view key) const {
  const GgufKeyValue* kv = impl_->find(key);
  return kv == nullptr ? nullptr : &kv->value;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  return find_in(impl_->tensors, impl_->tensors_sorted, &GgufTensor::name, name);
}

Result<std::optional<std::uint64_t>> GgufFile::optional_uint(std::string_view key,
                                                             std::uint64_t min,
                                                             std::uint64_t max) const {
  const GgufKeyValue* kv = impl_->find(key);
  if (kv == nullptr) return std::nullopt;
  const auto value = as_uint(kv->value);
  if (!value || *value < min || *value > max)
    return impl_->wrong(*kv, fmt::format("an integer from {} to {}", min, max));
  return value;
}

Result<std::uint64_t> GgufFile::require_uint(std::string_view key, std::uint64_t min,
                                             std::uint64_t max) const {
  QUIRE_ASSIGN_OR_RETURN(const auto value, optional_uint(key, min, max));
  if (!value) return impl_->missing(key);
  return *value;
}

Result<std::optional<double>> GgufFile::optional_float(std::string_view key) const {
  QUIRE_ASSIGN_OR_RETURN(const auto value, impl_->optional<double>(key, "a number"));
  if (value && !std::isfinite(*value)) return impl_->wrong(*impl_->find(key), "a finite number");
  return value;
}

Result<std::optional<bool>> GgufFile::optional_bool(std::string_view key) const {
  return impl_->optional<bool>(key, "a boolean");
}

Result<std::optional<std::string>> GgufFile::optional_string(std::string_view key) const {
  return impl_->optional<std::string>(key, "a string");
}

Result<std::string> GgufFile::require_string(std::string_view key) const {
  QUIRE_ASSIGN_OR_RETURN(auto value, optional_string(key));
  if (!value) return impl_->missing(key);
  return std::move(*value);
}

Result<std::optional<std::vector<std::uint64_t>>> GgufFile::optional_uints(
    std::string_view key) const {
  const GgufKeyValue* kv = impl_->find(key);
  if (kv == nullptr) return std::nullopt;
  if (const auto one = as_uint(kv->value)) return std::vector<std::uint64_t>{*one};
  constexpr std::string_view kExpected = "a non-negative integer or an array of them";
  const auto* array = std::get_if<GgufArray>(&kv->value);
  if (array == nullptr) return impl_->wrong(*kv, kExpected);
  if (const auto* u = std::get_if<std::vector<std::uint64_t>>(&array->items)) return *u;
  const auto* i = std::get_if<std::vector<std::int64_t>>(&array->items);
  if (i == nullptr || std::any_of(i->begin(), i->end(), [](std::int64_t v) { return v < 0; }))
    return impl_->wrong(*kv, kExpected);
  return std::vector<std::uint64_t>(i->begin(), i->end());
}

Result<const std::vector<std::string>*> GgufFile::optional_strings(std::string_view key) const {
  const GgufKeyValue* kv = impl_->find(key);
  if (kv == nullptr) return nullptr;
  const auto* array = std::get_if<GgufArray>(&kv->value);
  const auto* strings =
      array == nullptr ? nullptr : std::get_if<std::vector<std::string>>(&array->items);
  if (strings == nullptr) return impl_->wrong(*kv, "an array of strings");
  return strings;
}

Result<std::optional<std::vector<std::int64_t>>> GgufFile::optional_ints(
    std::string_view key) const {
  const GgufKeyValue* kv = impl_->find(key);
  if (kv == nullptr) return std::nullopt;
  constexpr std::string_view kExpected = "an array of integers";
  const auto* array = std::get_if<GgufArray>(&kv->value);
  if (array == nullptr) return impl_->wrong(*kv, kExpected);
  if (const auto* i = std::get_if<std::vector<std::int64_t>>(&array->items)) return *i;
  const auto* u = std::get_if<std::vector<std::uint64_t>>(&array->items);
  if (u == nullptr || std::any_of(u->begin(), u->end(), [](auto v) { return v > INT64_MAX; }))
    return impl_->wrong(*kv, kExpected);
  return std::vector<std::int64_t>(u->begin(), u->end());
}

Result<std::optional<std::vector<double>>> GgufFile::optional_floats(std::string_view key) const {
  const GgufKeyValue* kv = impl_->find(key);
  if (kv == nullptr) return std::nullopt;
  constexpr std::string_view kExpected = "an array of finite numbers";
  const auto* array = std::get_if<GgufArray>(&kv->value);
  const auto* items = array == nullptr ? nullptr : std::get_if<std::vector<double>>(&array->items);
  if (items == nullptr) return impl_->wrong(*kv, kExpected);
  if (!std::all_of(items->begin(), items->end(), [](double v) { return std::isfinite(v); }))
    return refuse(key, "it holds a number that is not finite");
  return *items;
}

tl::unexpected<Error> GgufFile::refuse(std::string_view key, std::string_view problem) const {
  const GgufKeyValue* kv = impl_->find(key);
  if (kv == nullptr) return impl_->missing(key);
  return fail(ErrorCode::kInvalidData, "{}: key '{}' at byte {}: {}", impl_->name, key, kv->offset,
              problem);
}

Result<const GgufTensor*> GgufFile::require_tensor(std::string_view name,
                                                   std::span<const std::uint64_t> ne) const {
  const GgufTensor* tensor = find_tensor(name);
  if (tensor == nullptr)
    return fail(ErrorCode::kNotFound, "{}: tensor '{}' is missing", impl_->name, name);
  const std::span<const std::uint64_t> found = without_trailing_ones(tensor->ne);
  const std::span<const std::uint64_t> wanted = without_trailing_ones(ne);
  if (!std::equal(wanted.begin(), wanted.end(), found.begin(), found.end()))
    return fail(ErrorCode::kInvalidData,
                "{}: tensor '{}' at byte {} has dimensions {}, expected {}", impl_->name, name,
                tensor->offset, fmt::join(tensor->ne, " x "), fmt::join(ne, " x "));
  return tensor;
}

}  // namespace quire
