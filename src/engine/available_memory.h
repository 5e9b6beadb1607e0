#pragma once

#include <cstdint>
#include <filesystem>

namespace quire {

/// Bytes that this process may still take: what the machine has available (MemAvailable), or less
/// where a control group (v1 or v2) of the process or one above it is limited, as in a container.
/// A large number where nothing is known. `root` stands before /proc and /sys, for tests.
std::uint64_t available_memory(const std::filesystem::path& root = "/");

}  // namespace quire
