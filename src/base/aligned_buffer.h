#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include "base/result.h"

namespace quire {

/// Zeroed anonymous memory from mmap: page-aligned, asks for huge pages when large, costs nothing
/// until touched. For weights, KV arenas and scratch.
class MappedMemory {
 public:
  static Result<MappedMemory> allocate(std::size_t bytes);

  MappedMemory() = default;
  MappedMemory(MappedMemory&& other) noexcept;
  MappedMemory& operator=(MappedMemory&& other) noexcept;
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  ~MappedMemory();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

  template <typename T>
  T* as(std::size_t byte_offset = 0) const {
    static_assert(std::is_trivially_copyable_v<T>);
    return reinterpret_cast<T*>(data_ + byte_offset);
  }

 private:
  MappedMemory(std::byte* data, std::size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A growable scratch array of trivially copyable T, 64-byte aligned. Growing discards contents.
template <typename T>
class ScratchArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// Makes room for n elements; contents are undefined afterwards if it had to grow.
  T* resize(std::size_t n) {
    if (n > capacity_) {
      storage_.reset(static_cast<T*>(::operator new[](n * sizeof(T), std::align_val_t{64})));
      capacity_ = n;
    }
    size_ = n;
    return storage_.get();
  }

  /// As above, but with zeros where it had to grow.
  T* resize_zeroed(std::size_t n) {
    const bool grows = n > capacity_;
    T* data = resize(n);
    if (grows) std::memset(data, 0, n * sizeof(T));
    return data;
  }

  T* data() { return storage_.get(); }
  const T* data() const { return storage_.get(); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return storage_[i]; }
  const T& operator[](std::size_t i) const { return storage_[i]; }

 private:
  struct Free {
    void operator()(T* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  std::unique_ptr<T[], Free> storage_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace quire
