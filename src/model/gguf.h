#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "kernels/tensor_type.h"

namespace quire {

struct GgufArray;
/// A metadata value. Integers of every width widen to (u)int64, both float widths to double.
/// Strings stay in the mapped file, also those of arrays: a vocabulary has hundreds of thousands.
using GgufValue =
    std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, GgufArray>;

/// Arrays hold one of these; nested arrays are refused.
struct GgufArray {
  std::variant<std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<double>,
               std::vector<bool>, std::vector<std::string_view>>
      items;
  std::size_t size() const;
};

/// No name, path or chat template comes near.
inline constexpr std::size_t kMaxGgufReadString = std::size_t{1} << 20;

struct GgufKeyValue {
  std::string key;
  GgufValue value;
  std::uint64_t offset = 0;  // of the key's record in the file, for messages
};

struct GgufTensor {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<std::uint64_t> ne;    // GGUF order: ne[0] is innermost (the row length)
  std::span<const std::byte> data;  // inside the mapped file, checked
  std::uint64_t offset = 0;         // of the tensor's record (not its data) in the file
  bool is_mapped = false;           // data comes back from a file when it is dropped
  std::uint64_t n_elements() const;
};

/// Takes a tensor's data out of this process's memory until it is read again, if it lies in a
/// mapped file.
void drop_resident(const GgufTensor& tensor);

/// A parsed GGUF v2 or v3 file, or a set of split files named NAME-00001-of-0000N.gguf (metadata
/// is the first one's). Everything is checked against the file before it is believed; errors name
/// the key or tensor and the byte offset. A file that is refused costs only what its records cost
/// (some MB at most); an accepted one at most 24 MiB of decoded metadata. Tensor data and strings
/// stay in the mapping.
///
/// The mapping is private but not a copy: a file that another process truncates while it is open
/// raises SIGBUS on the next read past its new end. Replace model files by rename, never in place.
class GgufFile {
 public:
  static Result<GgufFile> open(const std::filesystem::path& path);
  /// For fuzzing and tests: a file that is already in memory and outlives the object.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string_view name);
  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile();

  std::span<const GgufKeyValue> metadata() const;
  /// Frees the decoded metadata once nobody asks for it any more, which is some MB with a large
  /// vocabulary: from here on there is none. Tensors stay.
  void forget_metadata();
  /// Gives back the memory of whatever was read of mapped files; reading it again brings it back.
  void drop_resident() const;
  std::span<const GgufTensor> tensors() const;
  std::uint64_t file_bytes() const;
  const std::string& name() const;  // the path, or what parse() was given; for messages

  const GgufValue* find(std::string_view key) const;
  const GgufKeyValue* find_key(std::string_view key) const;
  const GgufTensor* find_tensor(std::string_view name) const;

  // Typed reads. require_*: missing is an error. optional_*: nullopt if missing. Both: a value of
  // another type or out of range is an error naming the key.
  Result<std::uint64_t> require_uint(std::string_view key, std::uint64_t min,
                                     std::uint64_t max) const;
  Result<std::optional<std::uint64_t>> optional_uint(std::string_view key, std::uint64_t min,
                                                     std::uint64_t max) const;
  Result<std::optional<double>> optional_float(std::string_view key) const;
  Result<std::optional<bool>> optional_bool(std::string_view key) const;
  /// At most kMaxGgufReadString bytes: whoever asks makes copies.
  Result<std::optional<std::string>> optional_string(std::string_view key) const;
  Result<std::string> require_string(std::string_view key) const;
  /// A number or an array of numbers (per layer), widened; nullptr-like nullopt if missing.
  Result<std::optional<std::vector<std::uint64_t>>> optional_uints(std::string_view key) const;
  /// An array of strings, in place; nullptr if missing.
  Result<const std::vector<std::string_view>*> optional_strings(std::string_view key) const;
  /// An array of integers (as int64) or numbers (as double); nullopt if missing.
  Result<std::optional<std::vector<std::int64_t>>> optional_ints(std::string_view key) const;
  Result<std::optional<std::vector<double>>> optional_floats(std::string_view key) const;

  /// The failure for a value that its reader refuses: file, key, byte offset and `problem`.
  tl::unexpected<Error> refuse(std::string_view key, std::string_view problem) const;

  /// The tensor, with these dimensions (GGUF order, trailing ones ignored), or an error that says
  /// what is there.
  Result<const GgufTensor*> require_tensor(std::string_view tensor_name,
                                           std::span<const std::uint64_t> ne) const;

 private:
  struct Impl;
  explicit GgufFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
