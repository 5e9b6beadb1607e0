#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace quire {

static_assert(std::endian::native == std::endian::little, "GGUF numbers are read as they lie");

/// Reads little-endian values front to back and never past the end: a read that does not fit
/// returns false and consumes nothing.
class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes, std::uint64_t offset = 0)
      : bytes_(bytes), offset_(offset) {}

  std::uint64_t offset() const { return offset_; }
  std::uint64_t remaining() const { return bytes_.size() - offset_; }

  template <typename T>
  [[nodiscard]] bool read(T& out) {
    static_assert(std::is_arithmetic_v<T>);
    if (remaining() < sizeof(T)) return false;
    std::memcpy(&out, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return true;
  }

  [[nodiscard]] bool read_text(std::uint64_t n, std::string_view& out) {
    if (remaining() < n) return false;
    out = {reinterpret_cast<const char*>(bytes_.data()) + offset_, static_cast<std::size_t>(n)};
    offset_ += n;
    return true;
  }

  [[nodiscard]] bool skip(std::uint64_t n) {
    if (remaining() < n) return false;
    offset_ += n;
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t offset_;
};

}  // namespace quire
