#include "engine/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace quire {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// The number that a file holds; nullopt if there is none ("max" means no limit).
std::optional<std::uint64_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

/// Bytes of files in memory, which the kernel gives up before it refuses anything. They count as
/// used, and a mapped model is most of them.
std::uint64_t cached_files(const fs::path& group) {
  // v1 sums over the groups below in the total_ lines, v2 in the plain ones.
  std::uint64_t plain = 0;
  std::uint64_t total = 0;
  std::ifstream file(group / "memory.stat");
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) {
    if (name == "inactive_file" || name == "active_file") plain += value;
    if (name == "total_inactive_file" || name == "total_active_file") total += value;
  }
  return std::max(plain, total);
}

/// What the limit of one group leaves.
std::uint64_t room_in(const fs::path& group, const char* limit_file, const char* usage_file) {
  const auto limit = read_number(group / limit_file);
  const auto usage = read_number(group / usage_file);
  if (!limit || !usage) return kUnlimited;
  const std::uint64_t used = *usage - std::min(*usage, cached_files(group));
  return *limit - std::min(*limit, used);
}

/// What a group and those above it leave. `path` is the group's below `mount`; a container may see
/// its own group as the mount itself, whatever the path says.
std::uint64_t room_along(const fs::path& mount, fs::path path, const char* limit_file,
                         const char* usage_file) {
  path = path.relative_path();
  std::uint64_t room = kUnlimited;
  while (true) {
    room = std::min(room, room_in(mount / path, limit_file, usage_file));
    if (path.empty()) return room;
    path = path.parent_path();
  }
}

bool has_word(std::string_view list, std::string_view word) {
  while (true) {
    const auto comma = list.find(',');
    if (list.substr(0, comma) == word) return true;
    if (comma == list.npos) return false;
    list.remove_prefix(comma + 1);
  }
}

std::uint64_t room_in_groups(const fs::path& root) {
  std::uint64_t room = kUnlimited;
  std::ifstream file(root / "proc/self/cgroup");
  const fs::path mount = root / "sys/fs/cgroup";
  // Lines are ID:CONTROLLERS:PATH; the one without controllers is v2's.
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const auto controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const fs::path path = line.substr(second + 1);
    if (controllers.empty()) {
      room = std::min(room, room_along(mount, path, "memory.max", "memory.current"));
    } else if (has_word(controllers, "memory")) {
      room = std::min(room, room_along(mount / "memory", path, "memory.limit_in_bytes",
                                       "memory.usage_in_bytes"));
    }
  }
  return room;
}

std::uint64_t room_in_machine(const fs::path& root) {
  std::ifstream file(root / "proc/meminfo");
  std::string word;
  std::uint64_t kib = 0;
  while (file >> word)
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  return kUnlimited;
}

}  // namespace

std::uint64_t available_memory(const fs::path& root) {
  return std::min(room_in_machine(root), room_in_groups(root));
}

}  // namespace quire
