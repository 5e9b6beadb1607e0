#include "base/aligned_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/bytes.h"

namespace quire {

Result<MappedMemory> MappedMemory::allocate(std::size_t bytes) {
  if (bytes == 0) return MappedMemory();
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    return fail(ErrorCode::kOutOfMemory, "the system refused {} of memory: {}",
                format_byte_size(bytes), std::strerror(errno));
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  // Advice only: where transparent huge pages are off, nothing is lost but speed.
  if (bytes >= kHugePage) ::madvise(data, bytes, MADV_HUGEPAGE);
  return MappedMemory(static_cast<std::byte*>(data), bytes);
}

MappedMemory::MappedMemory(MappedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedMemory& MappedMemory::operator=(MappedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedMemory::~MappedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace quire
