#include "engine/available_memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <string>

#include "base/temp_folder_testing.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// The files of /proc and /sys, as far as they are needed, in a folder.
class AvailableMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    write("proc/meminfo", "MemTotal: 100000 kB\nMemFree: 7 kB\nMemAvailable: 50000 kB\n");
  }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  testing::TempFolder folder_;
  fs::path root_ = folder_.path();
};

TEST_F(AvailableMemory, IsTheMachinesWithoutGroups) {
  EXPECT_EQ(available_memory(root_), 50000u * 1024);
  EXPECT_EQ(available_memory(root_ / "nothing here"), kUnlimited);
  EXPECT_GT(available_memory(), 0u);
}

TEST_F(AvailableMemory, IsWhatTheTightestGroupLeaves) {
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  write("sys/fs/cgroup/outer/inner/memory.current", "1000\n");
  EXPECT_EQ(available_memory(root_), 50000u * 1024);
  write("sys/fs/cgroup/outer/memory.max", "10000000\n");
  write("sys/fs/cgroup/outer/memory.current", "4000000\n");
  EXPECT_EQ(available_memory(root_), 6000000u);
  write("sys/fs/cgroup/outer/inner/memory.max", "500\n");  // already above its limit
  EXPECT_EQ(available_memory(root_), 0u);
}

TEST_F(AvailableMemory, FilesInMemoryMakeRoom) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "10000000\n");
  write("sys/fs/cgroup/memory.current", "9000000\n");
  write("sys/fs/cgroup/memory.stat",
        "anon 1\nfile 8000000\ninactive_file 5000000\nactive_file 1\n");
  EXPECT_EQ(available_memory(root_), 6000001u);
}

TEST_F(AvailableMemory, OlderGroupsCountToo) {
  write("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/docker/1234\n");
  // A container sees its own group as the mount.
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "8000000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "3000000\n");
  write("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 1000000\n");
  EXPECT_EQ(available_memory(root_), 6000000u);
}

}  // namespace
}  // namespace quire
