#include "model/gguf_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "model/gguf_shard.h"
#include "model/gguf_text.h"

namespace quire {
namespace {

// Bytes of a number or bool in the file; 0 for strings, arrays and ids that are no type.
std::uint64_t fixed_size(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return 0;
}

class MetadataWalk {
 public:
  MetadataWalk(ByteCursor& cursor, std::uint64_t max_bytes, std::string_view name)
      : cursor_(cursor), name_(name), max_bytes_(max_bytes) {}

  Result<std::vector<GgufRawKeyValue>> run(std::uint64_t n_keys) {
    std::vector<GgufRawKeyValue> out;
    for (std::uint64_t i = 0; i < n_keys; ++i) {
      raw_ = {};
      raw_.offset = cursor_.offset();
      QUIRE_RETURN_IF_ERROR(read_key(i, n_keys));
      QUIRE_RETURN_IF_ERROR(read_value());
      out.push_back(raw_);
    }
    QUIRE_RETURN_IF_ERROR(refuse_duplicates(out));
    return out;
  }

 private:
  template <typename... Args>
  [[nodiscard]] tl::unexpected<Error> fail_here(ErrorCode code, fmt::format_string<Args...> format,
                                                Args&&... args) const {
    return fail(code, "{}: key '{}' at byte {}: {}", name_, printable(raw_.key), raw_.offset,
                fmt::format(format, std::forward<Args>(args)...));
  }

  Status read_key(std::uint64_t i, std::uint64_t n_keys) {
    std::uint64_t length = 0;
    if (!cursor_.read(length))
      return fail(ErrorCode::kInvalidData,
                  "{}: the file ends at byte {}, before key {} of the {} it announces", name_,
                  cursor_.offset() + cursor_.remaining(), i + 1, n_keys);
    if (length == 0 || length > kMaxGgufKeyBytes || !cursor_.read_text(length, raw_.key))
      return fail(ErrorCode::kInvalidData,
                  "{}: key {} at byte {}: its length is {}, with {} bytes left in the file and {} "
                  "allowed",
                  name_, i + 1, raw_.offset, length, cursor_.remaining(), kMaxGgufKeyBytes);
    if (!is_plain_utf8(raw_.key))
      return fail_here(ErrorCode::kInvalidData,
                       "the key is not valid UTF-8 or holds control characters");
    return charge(sizeof(GgufKeyValue) + length);
  }

  Status read_value() {
    QUIRE_ASSIGN_OR_RETURN(raw_.type, read_type());
    if (raw_.type == GgufType::kArray) {
      QUIRE_ASSIGN_OR_RETURN(raw_.type, read_type());
      if (raw_.type == GgufType::kArray)
        return fail_here(ErrorCode::kUnsupported, "an array of arrays");
      raw_.is_array = true;
      if (!cursor_.read(raw_.count)) return fail_truncated("an array's length", 8);
    }
    raw_.value_offset = cursor_.offset();
    return raw_.type == GgufType::kString ? walk_strings() : walk_numbers();
  }

  Result<GgufType> read_type() {
    std::uint32_t id = 0;
    if (!cursor_.read(id)) return fail_truncated("a type", 4);
    const auto type = static_cast<GgufType>(id);
    if (fixed_size(type) == 0 && type != GgufType::kString && type != GgufType::kArray)
      return fail_here(ErrorCode::kInvalidData, "{} is no value type", id);
    return type;
  }

  Status walk_numbers() {
    const std::uint64_t size = fixed_size(raw_.type);
    if (raw_.count > cursor_.remaining() / size)
      return fail_here(ErrorCode::kInvalidData,
                       "{} values of {} bytes do not fit into the {} bytes left in the file",
                       raw_.count, size, cursor_.remaining());
    const bool is_bool = raw_.type == GgufType::kBool;
    QUIRE_RETURN_IF_ERROR(charge(raw_.count * (is_bool ? 1 : 8)));
    if (!is_bool) {
      QUIRE_CHECK(cursor_.skip(raw_.count * size));
      return {};
    }
    for (std::uint64_t i = 0; i < raw_.count; ++i) {
      std::uint8_t value = 0;
      QUIRE_CHECK(cursor_.read(value));
      if (value > 1)
        return fail_here(ErrorCode::kInvalidData, "a boolean at byte {} is {}, not 0 or 1",
                         cursor_.offset() - 1, value);
    }
    return {};
  }

  Status walk_strings() {
    if (raw_.count > cursor_.remaining() / sizeof(std::uint64_t))
      return fail_here(ErrorCode::kInvalidData,
                       "{} strings do not fit into the {} bytes left in the file", raw_.count,
                       cursor_.remaining());
    for (std::uint64_t i = 0; i < raw_.count; ++i) {
      const std::uint64_t at = cursor_.offset();
      std::uint64_t length = 0;
      if (!cursor_.read(length)) return fail_truncated("a string's length", 8);
      if (!cursor_.skip(length))
        return fail_here(ErrorCode::kInvalidData,
                         "the string at byte {} is {} bytes long, {} are left in the file", at,
                         length, cursor_.remaining());
      // Strings are decoded to views of the file; a single one's is part of its record.
      if (raw_.is_array) QUIRE_RETURN_IF_ERROR(charge(sizeof(std::string_view)));
    }
    return {};
  }

  // Counts what decoding will allocate, before anything is.
  Status charge(std::uint64_t bytes) {
    const auto total = checked_add(decoded_bytes_, bytes);
    if (!total || *total > max_bytes_)
      return fail_here(ErrorCode::kUnsupported,
                       "with it the metadata needs more than the {} bytes allowed", max_bytes_);
    decoded_bytes_ = *total;
    return {};
  }

  tl::unexpected<Error> fail_truncated(std::string_view what, int needed) const {
    return fail_here(ErrorCode::kInvalidData,
                     "the file ends inside {} at byte {} ({} bytes needed, {} left)", what,
                     cursor_.offset(), needed, cursor_.remaining());
  }

  Status refuse_duplicates(const std::vector<GgufRawKeyValue>& all) {
    std::vector<const GgufRawKeyValue*> sorted;
    sorted.reserve(all.size());
    for (const GgufRawKeyValue& raw : all) sorted.push_back(&raw);
    std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
      return std::pair(a->key, a->offset) < std::pair(b->key, b->offset);
    });
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      if (sorted[i]->key != sorted[i - 1]->key) continue;
      raw_ = *sorted[i];
      return fail_here(ErrorCode::kInvalidData, "the key was already given at byte {}",
                       sorted[i - 1]->offset);
    }
    return {};
  }

  ByteCursor& cursor_;
  std::string_view name_;
  GgufRawKeyValue raw_;
  std::uint64_t max_bytes_;
  std::uint64_t decoded_bytes_ = 0;
};

// Reads that the walk has already checked.
template <typename T>
T take(ByteCursor& cursor) {
  T value{};
  QUIRE_CHECK(cursor.read(value));
  return value;
}

std::string_view take_string(ByteCursor& cursor) {
  std::string_view text;
  QUIRE_CHECK(cursor.read_text(take<std::uint64_t>(cursor), text));
  return text;
}

/// One item, or an array of them, widened to Wide.
template <typename Wide, typename Take>
GgufValue decode_items(const GgufRawKeyValue& raw, ByteCursor& cursor, Take take_one) {
  if (!raw.is_array) return static_cast<Wide>(take_one(cursor));
  std::vector<Wide> items;
  items.reserve(raw.count);
  for (std::uint64_t i = 0; i < raw.count; ++i)
    items.push_back(static_cast<Wide>(take_one(cursor)));
  return GgufArray{std::move(items)};
}

GgufValue decode_strings(const GgufRawKeyValue& raw, ByteCursor& cursor) {
  if (!raw.is_array) return take_string(cursor);
  std::vector<std::string_view> items;
  items.reserve(raw.count);
  for (std::uint64_t i = 0; i < raw.count; ++i) items.push_back(take_string(cursor));
  return GgufArray{std::move(items)};
}

GgufValue decode_value(const GgufRawKeyValue& raw, ByteCursor cursor) {
  switch (raw.type) {
    case GgufType::kUint8:
      return decode_items<std::uint64_t>(raw, cursor, take<std::uint8_t>);
    case GgufType::kUint16:
      return decode_items<std::uint64_t>(raw, cursor, take<std::uint16_t>);
    case GgufType::kUint32:
      return decode_items<std::uint64_t>(raw, cursor, take<std::uint32_t>);
    case GgufType::kUint64:
      return decode_items<std::uint64_t>(raw, cursor, take<std::uint64_t>);
    case GgufType::kInt8:
      return decode_items<std::int64_t>(raw, cursor, take<std::int8_t>);
    case GgufType::kInt16:
      return decode_items<std::int64_t>(raw, cursor, take<std::int16_t>);
    case GgufType::kInt32:
      return decode_items<std::int64_t>(raw, cursor, take<std::int32_t>);
    case GgufType::kInt64:
      return decode_items<std::int64_t>(raw, cursor, take<std::int64_t>);
    case GgufType::kFloat32:
      return decode_items<double>(raw, cursor, take<float>);
    case GgufType::kFloat64:
      return decode_items<double>(raw, cursor, take<double>);
    case GgufType::kBool:
      return decode_items<bool>(raw, cursor, take<std::uint8_t>);
    case GgufType::kString:
      return decode_strings(raw, cursor);
    case GgufType::kArray:
      break;
  }
  check_failed("a type the walk accepts", __FILE__, __LINE__);
}

}  // namespace

Result<std::vector<GgufRawKeyValue>> walk_gguf_metadata(ByteCursor& cursor, std::uint64_t n_keys,
                                                        std::uint64_t max_bytes,
                                                        std::string_view name) {
  return MetadataWalk(cursor, max_bytes, name).run(n_keys);
}

GgufKeyValue decode_gguf_key_value(std::span<const std::byte> file, const GgufRawKeyValue& raw) {
  return {std::string(raw.key), decode_value(raw, ByteCursor(file, raw.value_offset)), raw.offset};
}

}  // namespace quire
