// Files that lie, one lie each: the error must have the right code and name the key or tensor and
// the byte it was found at.

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "model/gguf.h"
#include "model/gguf_shard.h"
#include "model/gguf_test_writer.h"

namespace quire {
namespace {

void expect_contains(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

Error error_of(const std::vector<std::byte>& bytes) {
  auto file = GgufFile::parse(bytes, "evil.gguf");
  if (file) return {ErrorCode::kIo, "the file was accepted"};
  EXPECT_TRUE(file.error().message.starts_with("evil.gguf")) << file.error().message;
  EXPECT_EQ(file.error().message.find('\n'), std::string::npos) << file.error().message;
  return file.error();
}

void expect_error(const std::vector<std::byte>& bytes, ErrorCode code, std::string_view what,
                  std::uint64_t offset, std::string_view why) {
  const Error error = error_of(bytes);
  EXPECT_EQ(error.code, code) << error.message;
  expect_contains(error.message, what);
  expect_contains(error.message, "at byte " + std::to_string(offset));
  expect_contains(error.message, why);
}

std::vector<std::byte> with_size(std::vector<std::byte> bytes, std::size_t size) {
  bytes.resize(size);
  return bytes;
}

// ---- header

TEST(GgufHostile, Header) {
  expect_contains(error_of({}).message, "is not a GGUF file: it has only 0 bytes");
  expect_contains(error_of(ByteWriter().raw("G").bytes()).message, "it has only 1 byte");
  expect_contains(error_of(ByteWriter().raw("GGU").bytes()).message, "it has only 3 bytes");
  expect_contains(error_of(ByteWriter().raw("ggjt").zeros(60).bytes()).message,
                  "begins with 'ggjt'");
  expect_contains(error_of(ByteWriter().raw("\x1b[2J").zeros(60).bytes()).message, "'\\x1b[2J'");
  GgufWriter w;
  w.version = 1;
  expect_error(w.build(), ErrorCode::kUnsupported, "GGUF version 1", 4, "convert the model again");
  w.version = 0x03000000;
  expect_error(w.build(), ErrorCode::kUnsupported, "big-endian", 4, "only little-endian");
  w.version = 4;
  expect_error(w.build(), ErrorCode::kUnsupported, "GGUF version 4", 4, "only 2 and 3");
  w.version = 0;
  expect_error(w.build(), ErrorCode::kUnsupported, "GGUF version 0", 4, "only 2 and 3");
}

TEST(GgufHostile, CountsBeyondTheFile) {
  for (const std::uint64_t count :
       {std::uint64_t{3}, std::uint64_t{1} << 32, std::uint64_t{1} << 61, std::uint64_t{1} << 63,
        ~std::uint64_t{0}}) {
    GgufWriter keys;
    keys.n_keys = count;
    expect_error(keys.build(), ErrorCode::kInvalidData, "count of keys", 16, std::to_string(count));
    GgufWriter tensors;
    tensors.n_tensors = count;
    expect_error(tensors.build(), ErrorCode::kInvalidData, "count of tensors", 8,
                 std::to_string(count));
  }
}

TEST(GgufHostile, CountsBeyondTheLimits) {
  GgufWriter w;
  w.data_bytes = 8u << 20;
  w.n_tensors = kMaxGgufTensors + 1;
  expect_error(w.build(), ErrorCode::kUnsupported, "count of tensors", 8, "at most 16384");
  w.n_tensors.reset();
  w.n_keys = kMaxGgufKeys + 1;
  expect_error(w.build(), ErrorCode::kUnsupported, "count of keys", 16, "at most 4096");
}

// ---- keys

TEST(GgufHostile, KeyText) {
  GgufWriter w;
  w.key("", ByteWriter().type(GgufType::kBool).put(std::uint8_t{1}).zeros(8));
  expect_error(w.build(), ErrorCode::kInvalidData, "key 1", 24, "its length is 0");
  GgufWriter nul;
  nul.u32(std::string_view("a\0b", 3), 1);
  expect_error(nul.build(), ErrorCode::kInvalidData, "key 'a\\x00b'", 24, "control characters");
  GgufWriter utf8;
  utf8.u32("first", 1);
  const auto at = utf8.u32("bad\xff", 1);
  expect_error(utf8.build(), ErrorCode::kInvalidData, "key 'bad\\xff'", at, "not valid UTF-8");
  GgufWriter escape;
  escape.u32("\x1b]0;owned\x07", 1);
  expect_error(escape.build(), ErrorCode::kInvalidData, "key '\\x1b]0;owned\\x07'", 24, "control");
  GgufWriter length;
  length.raw_tensor(ByteWriter().u64(std::uint64_t{1} << 48).raw("abc").zeros(40));
  length.n_tensors = 0;
  length.n_keys = 1;
  expect_error(length.build(), ErrorCode::kInvalidData, "key 1", 24, "281474976710656");
}

TEST(GgufHostile, KeyGivenTwice) {
  GgufWriter w;
  w.u32("llama.block_count", 1);
  w.u32("other", 1);
  const auto at = w.u32("llama.block_count", 2);
  expect_error(w.build(), ErrorCode::kInvalidData, "key 'llama.block_count'", at,
               "already given at byte 24");
}

TEST(GgufHostile, ValueTypes) {
  for (const std::uint32_t id : {13u, 14u, 255u, 0xffffffffu}) {
    GgufWriter w;
    const auto at = w.key("k", ByteWriter().u32(id).zeros(16));
    expect_error(w.build(), ErrorCode::kInvalidData, "key 'k'", at,
                 std::to_string(id) + " is no value type");
    GgufWriter array;
    array.key("k", ByteWriter().type(GgufType::kArray).u32(id).u64(1).zeros(16));
    expect_error(array.build(), ErrorCode::kInvalidData, "key 'k'", 24, "is no value type");
  }
  GgufWriter w;
  w.key("k", ByteWriter().type(GgufType::kBool).put(std::uint8_t{2}));
  expect_error(w.build(), ErrorCode::kInvalidData, "key 'k'", 24, "is 2, not 0 or 1");
}

TEST(GgufHostile, NestedArrays) {
  ByteWriter value;
  for (int depth = 0; depth < 10000; ++depth) value.type(GgufType::kArray).u64(1);
  GgufWriter w;
  w.key("deep", ByteWriter().type(GgufType::kArray).type(GgufType::kArray).u64(1).append(value));
  expect_error(w.build(), ErrorCode::kUnsupported, "key 'deep'", 24, "array of arrays");
}

TEST(GgufHostile, ArrayLengths) {
  for (const GgufType type : {GgufType::kUint8, GgufType::kUint16, GgufType::kFloat32,
                              GgufType::kBool, GgufType::kInt64, GgufType::kString}) {
    for (const std::uint64_t length :
         {std::uint64_t{1000}, std::uint64_t{1} << 61, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
      GgufWriter w;
      const auto at = w.key("list", ByteWriter().type(GgufType::kArray).type(type).u64(length));
      expect_error(w.build(), ErrorCode::kInvalidData, "key 'list'", at, std::to_string(length));
    }
  }
}

TEST(GgufHostile, StringLengths) {
  for (const std::uint64_t length :
       {std::uint64_t{9}, std::uint64_t{1} << 48, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    GgufWriter w;
    w.key("text", ByteWriter().type(GgufType::kString).u64(length).raw("12345678"));
    expect_error(w.build(), ErrorCode::kInvalidData, "key 'text'", 24, std::to_string(length));
    GgufWriter array;
    array.key("list", ByteWriter()
                          .type(GgufType::kArray)
                          .type(GgufType::kString)
                          .u64(2)
                          .text("ok")
                          .u64(length)
                          .raw("12345678"));
    expect_error(array.build(), ErrorCode::kInvalidData, "key 'list'", 24, std::to_string(length));
  }
}

TEST(GgufHostile, MetadataThatWouldDecodeToTooMuch) {
  // 2 Mi empty strings are 16 MiB of file, but would be 32 MiB of views.
  GgufWriter w;
  constexpr std::uint64_t kCount = 2u << 20;
  w.key("list",
        ByteWriter().type(GgufType::kArray).type(GgufType::kString).u64(kCount).zeros(kCount * 8));
  expect_error(w.build(), ErrorCode::kUnsupported, "key 'list'", 24, "25165824 bytes allowed");
}

TEST(GgufHostile, Alignment) {
  for (const std::uint32_t alignment : {0u, 1u, 3u, 4u, 24u, 33u, 1u << 31, 0xffffffffu}) {
    GgufWriter w;
    const auto at = w.u32("general.alignment", alignment);
    w.tensor("t", id_of(TensorType::kF32), {8}, 0);
    w.data_bytes = 64;
    expect_error(w.build(), ErrorCode::kInvalidData, "key 'general.alignment'", at,
                 "is " + std::to_string(alignment) + ", not a power of two");
  }
  GgufWriter w;
  w.string("general.alignment", "32");
  expect_error(w.build(), ErrorCode::kInvalidData, "key 'general.alignment'", 24,
               "not a 32-bit unsigned integer");
}

// ---- tensors

struct TensorCase {
  std::vector<std::uint64_t> ne;
  std::uint32_t type;
  std::uint64_t offset;
  ErrorCode code;
  std::string why;
};

TEST(GgufHostile, TensorRecords) {
  constexpr std::uint32_t kF32 = id_of(TensorType::kF32);
  constexpr std::uint32_t kQ4_K = id_of(TensorType::kQ4_K);
  constexpr std::uint64_t kTwo32 = std::uint64_t{1} << 32;
  const TensorCase cases[] = {
      {{0}, kF32, 0, ErrorCode::kInvalidData, "dimension 0 is 0"},
      {{8, 4, 0}, kF32, 0, ErrorCode::kInvalidData, "dimension 2 is 0"},
      {{}, kF32, 0, ErrorCode::kInvalidData, "0 dimensions"},
      {{1, 1, 1, 1, 1}, kF32, 0, ErrorCode::kInvalidData, "5 dimensions"},
      {{8}, 4, 0, ErrorCode::kUnsupported, "type 4 is not known"},
      {{8}, 0xffffffff, 0, ErrorCode::kUnsupported, "type 4294967295 is not known"},
      {{100}, kQ4_K, 0, ErrorCode::kInvalidData, "not a multiple of the 256 of a Q4_K block"},
      {{33, 32}, id_of(TensorType::kQ8_0), 0, ErrorCode::kInvalidData, "multiple of the 32"},
      {{(std::uint64_t{1} << 63) - 1, 2}, kF32, 0, ErrorCode::kInvalidData, "overflow 64 bits"},
      {{kTwo32, kTwo32}, kF32, 0, ErrorCode::kInvalidData, "overflow 64 bits"},
      {{(std::uint64_t{1} << 42) + 1, std::uint64_t{1} << 22},
       kF32,
       0,
       ErrorCode::kInvalidData,
       "overflow 64 bits"},
      {{std::uint64_t{1} << 62}, kF32, 0, ErrorCode::kInvalidData, "overflow 64 bits"},
      {{65536, 65536, 65536, 65536}, kF32, 0, ErrorCode::kInvalidData, "overflow 64 bits"},
      {{(std::uint64_t{1} << 42) + 1}, kF32, 0, ErrorCode::kInvalidData, "past the end"},
      {{33}, kF32, 0, ErrorCode::kInvalidData, "past the end of the file"},
      {{32}, kF32, 32, ErrorCode::kInvalidData, "past the end of the file"},
      {{1}, kF32, std::uint64_t{1} << 63, ErrorCode::kInvalidData, "past the end of the file"},
      {{1}, kF32, ~std::uint64_t{0} - 31, ErrorCode::kInvalidData, "past the end of the file"},
      {{1}, kF32, 4, ErrorCode::kInvalidData, "offset 4 is not a multiple of the alignment 32"},
  };
  for (const TensorCase& c : cases) {
    GgufWriter w;
    w.u32("some.key", 1);
    ByteWriter record;
    record.text("blk.0.evil").u32(static_cast<std::uint32_t>(c.ne.size()));
    for (const std::uint64_t n : c.ne) record.u64(n);
    const auto at = w.raw_tensor(record.u32(c.type).u64(c.offset));
    w.data_bytes = 128;
    expect_error(w.build(), c.code, "tensor 'blk.0.evil'", at, c.why);
  }
}

TEST(GgufHostile, HugeDimensionCount) {
  GgufWriter w;
  w.raw_tensor(ByteWriter().text("t").u32(0xffffffff).zeros(64));
  expect_error(w.build(), ErrorCode::kInvalidData, "tensor 't'", 24, "4294967295 dimensions");
}

TEST(GgufHostile, TensorNames) {
  GgufWriter twice;
  twice.tensor("same", id_of(TensorType::kF32), {8}, 0);
  const auto at = twice.tensor("same", id_of(TensorType::kF32), {8}, 32);
  twice.data_bytes = 64;
  expect_error(twice.build(), ErrorCode::kInvalidData, "tensor 'same'", at,
               "already given at byte 24");
  GgufWriter long_name;
  long_name.tensor(std::string(257, 'x'), id_of(TensorType::kF32), {8}, 0);
  long_name.data_bytes = 32;
  expect_error(long_name.build(), ErrorCode::kInvalidData, "tensor 1", 24,
               "its name's length is 257");
  GgufWriter nul;
  nul.tensor(std::string_view("a\0b", 3), id_of(TensorType::kF32), {8}, 0);
  nul.data_bytes = 32;
  expect_error(nul.build(), ErrorCode::kInvalidData, "tensor 'a\\x00b'", 24, "control characters");
}

TEST(GgufHostile, OverlappingTensors) {
  GgufWriter w;
  const auto at = w.tensor("second", id_of(TensorType::kF32), {8}, 32);
  w.tensor("first", id_of(TensorType::kF32), {9}, 0);
  w.data_bytes = 64;
  expect_error(w.build(), ErrorCode::kInvalidData, "tensor 'second'", at,
               "overlaps tensor 'first'");
}

TEST(GgufHostile, DataSectionMissing) {
  GgufWriter w;
  w.tensor("t", id_of(TensorType::kF32), {8}, 0);
  expect_error(w.build(), ErrorCode::kInvalidData, "tensor 't'", 24, "past the end of the file");
}

TEST(GgufHostile, TruncatedRecordsSayWhere) {
  GgufWriter w;
  const auto key_at = w.u32("k", 7);
  const auto list_at = w.strings("list", {"four", "five"});
  const auto tensor_at = w.tensor("t", id_of(TensorType::kF32), {8, 1}, 0);
  w.data_bytes = 32;
  const auto full = w.build();
  ASSERT_TRUE(GgufFile::parse(full, "whole").has_value());
  w.n_tensors = 0;  // keep the count check from speaking first
  w.n_keys = 1;
  expect_error(with_size(w.build(), key_at + 14), ErrorCode::kInvalidData, "key 'k'", key_at,
               "bytes left in the file");
  w.n_keys = 2;
  expect_error(with_size(w.build(), list_at + 12 + 16 + 12 + 4), ErrorCode::kInvalidData,
               "key 'list'", list_at, "ends inside a string's length");
  w.n_keys.reset();
  w.n_tensors = 1;
  expect_error(with_size(w.build(), tensor_at + 31), ErrorCode::kInvalidData, "tensor 't'",
               tensor_at, "ends inside its type");
}

}  // namespace
}  // namespace quire
