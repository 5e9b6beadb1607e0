#pragma once
// Reads what tests/oracle/tokens.py wrote; the formats are described there.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace quire::testing {

struct ExpectedIds {
  std::vector<TokenId> plain;
  std::vector<TokenId> special;
};

struct PreTokenizerHashes {
  std::string name;
  std::vector<std::uint64_t>
      hashes;  // of the ids of every strings.size() / hashes.size()-th string
};

Result<std::vector<std::string>> read_strings(const std::filesystem::path& path);
Result<std::vector<ExpectedIds>> read_ids(const std::filesystem::path& path);
Result<std::vector<PreTokenizerHashes>> read_hashes(const std::filesystem::path& path);

/// FNV-1a over the ids as little-endian 32-bit numbers.
std::uint64_t hash_ids(const std::vector<TokenId>& ids);

}  // namespace quire::testing
