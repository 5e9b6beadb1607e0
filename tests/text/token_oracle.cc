#include "tests/text/token_oracle.h"

#include <fstream>
#include <iterator>

namespace quire::testing {
namespace {

class Reader {
 public:
  static Result<Reader> open(const std::filesystem::path& path, std::string_view magic) {
    std::ifstream file(path, std::ios::binary);
    Reader reader;
    reader.bytes_.assign(std::istreambuf_iterator<char>(file), {});
    if (reader.bytes_.substr(0, magic.size()) != magic) {
      return fail(ErrorCode::kInvalidData, "{} is not an oracle file; run tests/oracle/tokens.py",
                  path.string());
    }
    reader.at_ = magic.size();
    return reader;
  }

  std::uint64_t fixed(std::size_t n_bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < n_bytes; ++i) value |= std::uint64_t{next()} << (8 * i);
    return value;
  }

  std::size_t varint() {
    std::size_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const unsigned char byte = next();
      value |= static_cast<std::size_t>(byte & 0x7Fu) << shift;
      if (byte < 0x80) return value;
    }
  }

  std::string bytes(std::size_t n) {
    at_ += n;
    return bytes_.substr(at_ - n, n);
  }

  bool at_end() const { return at_ == bytes_.size(); }

 private:
  unsigned char next() { return static_cast<unsigned char>(bytes_.at(at_++)); }

  std::string bytes_;
  std::size_t at_ = 0;
};

std::vector<TokenId> read_list(Reader& reader, std::size_t n) {
  std::vector<TokenId> ids;
  ids.reserve(n);
  for (std::size_t i = 0; i < n; ++i) ids.push_back(static_cast<TokenId>(reader.varint()));
  return ids;
}

}  // namespace

Result<std::vector<std::string>> read_strings(const std::filesystem::path& path) {
  QUIRE_ASSIGN_OR_RETURN(Reader reader, Reader::open(path, "QSTRINGS"));
  std::vector<std::string> out(reader.fixed(4));
  for (std::string& text : out) text = reader.bytes(reader.varint());
  return out;
}

Result<std::vector<ExpectedIds>> read_ids(const std::filesystem::path& path) {
  QUIRE_ASSIGN_OR_RETURN(Reader reader, Reader::open(path, "QTOKENS1"));
  std::vector<ExpectedIds> out(reader.fixed(4));
  for (ExpectedIds& expected : out) {
    expected.plain = read_list(reader, reader.varint() - 1);
    const std::size_t n = reader.varint();
    expected.special = n == 0 ? expected.plain : read_list(reader, n - 1);
  }
  return out;
}

Result<std::vector<PreTokenizerHashes>> read_hashes(const std::filesystem::path& path) {
  QUIRE_ASSIGN_OR_RETURN(Reader reader, Reader::open(path, "QPREHASH"));
  std::vector<PreTokenizerHashes> out(reader.fixed(4));
  const std::size_t n_strings = reader.fixed(4);
  for (PreTokenizerHashes& pre : out) {
    pre.name = reader.bytes(reader.varint());
    for (std::size_t i = 0; i < n_strings; ++i) pre.hashes.push_back(reader.fixed(8));
  }
  return out;
}

std::uint64_t hash_ids(const std::vector<TokenId>& ids) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const TokenId id : ids) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (static_cast<std::uint32_t>(id) >> shift & 0xFFu)) * 0x100000001B3;
    }
  }
  return hash;
}

}  // namespace quire::testing
