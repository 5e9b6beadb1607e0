#pragma once
// Byte counts as people write them.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

/// "512MiB", "1.5 GiB", "64k", "1000" (bytes). K, M, G, T with or without "iB" are powers of 1024,
/// "kB", "MB", "GB", "TB" powers of 1000.
Result<std::uint64_t> parse_byte_size(std::string_view text);

/// Powers of 1024 with one decimal: "512.0 MiB"; below 1 KiB plain: "17 B".
std::string format_byte_size(std::uint64_t bytes);

}  // namespace quire
