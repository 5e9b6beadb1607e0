#pragma once
// Writes GGUF files for tests, well formed or not: every length, count, id and offset can be a lie.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/tensor_type.h"
#include "model/gguf_metadata.h"

namespace quire {

/// Little-endian bytes, appended.
class ByteWriter {
 public:
  template <typename T>
  ByteWriter& put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    const auto at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
    return *this;
  }
  ByteWriter& u32(std::uint32_t v) { return put(v); }
  ByteWriter& u64(std::uint64_t v) { return put(v); }
  ByteWriter& type(GgufType t) { return put(static_cast<std::uint32_t>(t)); }
  ByteWriter& raw(std::string_view text) {
    const auto* p = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), p, p + text.size());
    return *this;
  }
  ByteWriter& text(std::string_view text) { return u64(text.size()).raw(text); }
  ByteWriter& zeros(std::size_t n) {
    bytes_.resize(bytes_.size() + n);
    return *this;
  }
  ByteWriter& append(const ByteWriter& other) {
    bytes_.insert(bytes_.end(), other.bytes_.begin(), other.bytes_.end());
    return *this;
  }
  std::size_t size() const { return bytes_.size(); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Keys first, then tensors, then build(). Counts in the header are what was added, unless set.
class GgufWriter {
 public:
  static constexpr std::uint64_t kHeaderBytes = 24;

  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  // of the data section that build() lays out
  std::optional<std::uint64_t> n_keys;
  std::optional<std::uint64_t> n_tensors;
  std::size_t data_bytes = 0;  // zeros in the data section

  /// A record whose value the caller writes (type id and all). Returns the record's byte offset.
  std::uint64_t key(std::string_view name, const ByteWriter& value) {
    const std::uint64_t at = kHeaderBytes + keys_.size();
    keys_.text(name).append(value);
    ++keys_added_;
    return at;
  }
  std::uint64_t u32(std::string_view name, std::uint32_t v) {
    return key(name, ByteWriter().type(GgufType::kUint32).u32(v));
  }
  std::uint64_t i32(std::string_view name, std::int32_t v) {
    return key(name, ByteWriter().type(GgufType::kInt32).put(v));
  }
  std::uint64_t f32(std::string_view name, float v) {
    return key(name, ByteWriter().type(GgufType::kFloat32).put(v));
  }
  std::uint64_t boolean(std::string_view name, bool v) {
    return key(name, ByteWriter().type(GgufType::kBool).put(std::uint8_t{v}));
  }
  std::uint64_t string(std::string_view name, std::string_view v) {
    return key(name, ByteWriter().type(GgufType::kString).text(v));
  }
  std::uint64_t strings(std::string_view name, const std::vector<std::string>& items) {
    ByteWriter value;
    value.type(GgufType::kArray).type(GgufType::kString).u64(items.size());
    for (const std::string& item : items) value.text(item);
    return key(name, value);
  }
  template <typename T>
  std::uint64_t array(std::string_view name, GgufType type, const std::vector<T>& items) {
    ByteWriter value;
    value.type(GgufType::kArray).type(type).u64(items.size());
    for (const T item : items) value.put(item);
    return key(name, value);
  }

  /// Returns the record's byte offset. Every key must have been added before.
  std::uint64_t tensor(std::string_view name, std::uint32_t type_id,
                       std::initializer_list<std::uint64_t> ne, std::uint64_t data_offset) {
    ByteWriter record;
    record.text(name).u32(static_cast<std::uint32_t>(ne.size()));
    for (const std::uint64_t n : ne) record.u64(n);
    return raw_tensor(record.u32(type_id).u64(data_offset));
  }
  std::uint64_t raw_tensor(const ByteWriter& record) {
    const std::uint64_t at = kHeaderBytes + keys_.size() + tensors_.size();
    tensors_.append(record);
    ++tensors_added_;
    return at;
  }

  std::vector<std::byte> build() const {
    ByteWriter out;
    out.raw("GGUF").u32(version).u64(n_tensors.value_or(tensors_added_));
    out.u64(n_keys.value_or(keys_added_)).append(keys_).append(tensors_);
    if (data_bytes > 0) out.zeros((alignment - out.size() % alignment) % alignment + data_bytes);
    return out.bytes();
  }

 private:
  ByteWriter keys_;
  ByteWriter tensors_;
  std::uint64_t keys_added_ = 0;
  std::uint64_t tensors_added_ = 0;
};

inline constexpr std::uint32_t id_of(TensorType type) { return static_cast<std::uint32_t>(type); }

}  // namespace quire
