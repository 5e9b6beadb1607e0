#include "model/gguf_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>

#include "model/gguf_cursor.h"
#include "model/gguf_metadata.h"
#include "model/gguf_tensor_walk.h"
#include "model/gguf_text.h"

namespace quire {
namespace {

constexpr std::uint64_t kDefaultAlignment = 32;
// The smallest records there can be: a one-byte key with a one-byte value, a one-byte tensor name
// with one dimension.
constexpr std::uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;
constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

struct Header {
  std::uint32_t version = 0;
  std::uint64_t n_tensors = 0;
  std::uint64_t n_keys = 0;
};

Status check_version(std::uint32_t version, std::string_view name) {
  if (version == 2 || version == 3) return {};
  if ((version & 0xffff) == 0 && version != 0)
    return fail(ErrorCode::kUnsupported,
                "{}: the version at byte 4 says this is a big-endian GGUF file; only little-endian "
                "files are read",
                name);
  if (version == 1)
    return fail(ErrorCode::kUnsupported,
                "{}: GGUF version 1 (at byte 4) is not read; convert the model again to version 3",
                name);
  return fail(ErrorCode::kUnsupported, "{}: GGUF version {} (at byte 4) is not known, only 2 and 3",
              name, version);
}

Status check_count(std::string_view what, std::uint64_t at, std::uint64_t count,
                   std::uint64_t limit, std::uint64_t min_bytes, std::uint64_t remaining,
                   std::string_view name) {
  if (count > remaining / min_bytes)
    return fail(ErrorCode::kInvalidData,
                "{}: the count of {} at byte {} is {}, more than the {} bytes left in the file can "
                "hold",
                name, what, at, count, remaining);
  if (count > limit)
    return fail(ErrorCode::kUnsupported, "{}: the count of {} at byte {} is {}, at most {} allowed",
                name, what, at, count, limit);
  return {};
}

Result<Header> read_header(ByteCursor& cursor, std::string_view name) {
  std::string_view magic;
  if (!cursor.read_text(4, magic))
    return fail(ErrorCode::kInvalidData, "{} is not a GGUF file: it has only {} byte{}", name,
                cursor.remaining(), cursor.remaining() == 1 ? "" : "s");
  if (magic != "GGUF")
    return fail(ErrorCode::kInvalidData, "{} is not a GGUF file: it begins with '{}', not 'GGUF'",
                name, printable(magic));
  Header header;
  if (!cursor.read(header.version))
    return fail(ErrorCode::kInvalidData, "{}: the file ends inside the version at byte 4", name);
  QUIRE_RETURN_IF_ERROR(check_version(header.version, name));
  if (!cursor.read(header.n_tensors) || !cursor.read(header.n_keys))
    return fail(ErrorCode::kInvalidData,
                "{}: the file ends inside the header's counts at byte {} ({} bytes left)", name,
                cursor.offset(), cursor.remaining());
  QUIRE_RETURN_IF_ERROR(check_count("tensors", 8, header.n_tensors, kMaxGgufTensors,
                                    kMinTensorBytes, cursor.remaining(), name));
  QUIRE_RETURN_IF_ERROR(
      check_count("keys", 16, header.n_keys, kMaxGgufKeys, kMinKeyBytes, cursor.remaining(), name));
  return header;
}

Result<std::uint64_t> alignment_of(std::span<const std::byte> bytes,
                                   const std::vector<GgufRawKeyValue>& keys,
                                   std::string_view name) {
  const auto raw = std::find_if(keys.begin(), keys.end(), [](const GgufRawKeyValue& kv) {
    return kv.key == "general.alignment";
  });
  if (raw == keys.end()) return kDefaultAlignment;
  if (raw->is_array || raw->type != GgufType::kUint32)
    return fail(ErrorCode::kInvalidData,
                "{}: key 'general.alignment' at byte {} is not a 32-bit unsigned integer", name,
                raw->offset);
  const std::uint64_t value = std::get<std::uint64_t>(decode_gguf_key_value(bytes, *raw).value);
  if (!std::has_single_bit(value) || value < 8 || value > kMaxGgufAlignment)
    return fail(ErrorCode::kInvalidData,
                "{}: key 'general.alignment' at byte {} is {}, not a power of two from 8 to {}",
                name, raw->offset, value, kMaxGgufAlignment);
  return value;
}

}  // namespace

Result<GgufShard> read_gguf_shard(std::span<const std::byte> bytes, std::string_view name,
                                  std::uint64_t max_metadata_bytes) {
  ByteCursor cursor(bytes);
  QUIRE_ASSIGN_OR_RETURN(const Header header, read_header(cursor, name));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<GgufRawKeyValue> keys,
                         walk_gguf_metadata(cursor, header.n_keys, max_metadata_bytes, name));
  QUIRE_ASSIGN_OR_RETURN(const std::uint64_t alignment, alignment_of(bytes, keys, name));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<GgufRawTensor> tensors,
                         walk_gguf_tensors(cursor, header.n_tensors, alignment, name));

  GgufShard shard;
  shard.version = header.version;
  shard.metadata.reserve(keys.size());
  for (const GgufRawKeyValue& raw : keys)
    shard.metadata.push_back(decode_gguf_key_value(bytes, raw));
  shard.tensors.reserve(tensors.size());
  for (const GgufRawTensor& raw : tensors)
    shard.tensors.push_back({std::string(raw.name), raw.type,
                             std::vector<std::uint64_t>(raw.ne, raw.ne + raw.n_dims),
                             bytes.subspan(raw.where, raw.bytes), raw.offset});
  return shard;
}

}  // namespace quire
