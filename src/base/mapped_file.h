#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace quire {

/// A whole file mapped read-only. Bytes stay valid for the life of the object.
class MappedFile {
 public:
  /// Fails for anything but a regular, readable, non-empty file.
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}

  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Takes the whole pages of a part of a mapped file out of this process's memory; they come back
/// from the file when they are read again.
void drop_resident(std::span<const std::byte> mapped);

}  // namespace quire
