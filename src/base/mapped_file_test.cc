#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/temp_folder_testing.h"

namespace quire {
namespace {

TEST(MappedFile, RefusesWhatIsNoRegularFile) {
  const testing::TempFolder dir;
  EXPECT_FALSE(MappedFile::open(dir.path()).has_value());
  EXPECT_FALSE(MappedFile::open(dir / "no such file").has_value());
  const auto fifo = dir / "quire_fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_FALSE(MappedFile::open(fifo).has_value());
  const auto empty = dir / "quire_empty";
  std::ofstream(empty).flush();
  EXPECT_FALSE(MappedFile::open(empty).has_value());
}

/// Bytes of mapped files in this process's memory.
std::size_t resident_file_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::size_t kilobytes = 0;
  while (status >> word) {
    if (word != "RssFile:" && word != "RssShmem:") continue;  // the latter on tmpfs
    std::size_t value = 0;
    status >> value;
    kilobytes += value;
  }
  return kilobytes * 1024;
}

TEST(MappedFile, DroppedBytesComeBackFromTheFile) {
  const testing::TempFolder dir;
  const auto path = dir / "quire_dropped";
  const std::string text(std::size_t{4} << 20, 'q');
  std::ofstream(path) << text;
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.has_value());
  const auto is_whole = [&] {
    return std::ranges::all_of(file->bytes(), [](std::byte b) { return b == std::byte{'q'}; });
  };
  EXPECT_TRUE(is_whole());
  const std::size_t before = resident_file_bytes();
  drop_resident(file->bytes().subspan(100, 3 << 20));
  const std::size_t after = resident_file_bytes();
  EXPECT_GT(before, after + (2 << 20));
  EXPECT_TRUE(is_whole());
  drop_resident(file->bytes().first(10));  // less than a page
  drop_resident({});
}

TEST(MappedFile, MapsTheBytes) {
  const testing::TempFolder dir;
  const auto path = dir / "quire_mapped";
  std::ofstream(path) << "pages";
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.has_value());
  MappedFile moved = std::move(*file);
  EXPECT_EQ(moved.bytes().size(), 5u);
  EXPECT_EQ(moved.bytes()[0], std::byte{'p'});
}

}  // namespace
}  // namespace quire
