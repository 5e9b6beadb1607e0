#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

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
