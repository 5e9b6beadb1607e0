#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

namespace quire {
namespace {

TEST(MappedFile, RefusesWhatIsNoRegularFile) {
  const std::filesystem::path dir = testing::TempDir();
  EXPECT_FALSE(MappedFile::open(dir).has_value());
  EXPECT_FALSE(MappedFile::open(dir / "no such file").has_value());
  const auto fifo = dir / "quire_fifo";
  std::filesystem::remove(fifo);
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_FALSE(MappedFile::open(fifo).has_value());
  std::filesystem::remove(fifo);
  const auto empty = dir / "quire_empty";
  std::ofstream(empty).flush();
  EXPECT_FALSE(MappedFile::open(empty).has_value());
}

TEST(MappedFile, MapsTheBytes) {
  const auto path = std::filesystem::path(testing::TempDir()) / "quire_mapped";
  std::ofstream(path) << "pages";
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.has_value());
  MappedFile moved = std::move(*file);
  EXPECT_EQ(moved.bytes().size(), 5u);
  EXPECT_EQ(moved.bytes()[0], std::byte{'p'});
}

}  // namespace
}  // namespace quire
