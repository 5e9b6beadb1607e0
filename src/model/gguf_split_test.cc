#include "model/gguf_split.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/temp_folder_testing.h"
#include "model/gguf_test_writer.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

class GgufSplitTest : public ::testing::Test {
 protected:
  struct Shard {
    std::uint16_t no;
    std::uint16_t count;
    std::int32_t n_tensors;
    std::string tensor;
  };

  fs::path write(const std::string& file_name, const Shard& shard) {
    GgufWriter w;
    if (shard.no == 0) w.string("general.architecture", "llama");
    w.key("split.no", ByteWriter().type(GgufType::kUint16).put(shard.no));
    w.key("split.count", ByteWriter().type(GgufType::kUint16).put(shard.count));
    w.i32("split.tensors.count", shard.n_tensors);
    w.tensor(shard.tensor, id_of(TensorType::kF32), {8}, 0);
    w.data_bytes = 32;
    const auto bytes = w.build();
    const fs::path path = dir_ / file_name;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
    return path;
  }

  // Three good shards; returns the first's path.
  fs::path write_three() {
    write("m-00002-of-00003.gguf", {1, 3, 3, "b"});
    write("m-00003-of-00003.gguf", {2, 3, 3, "c"});
    return write("m-00001-of-00003.gguf", {0, 3, 3, "a"});
  }

  static void expect_refused(const fs::path& path, std::string_view why) {
    const auto file = GgufFile::open(path);
    ASSERT_FALSE(file.has_value()) << why;
    EXPECT_NE(file.error().message.find(why), std::string::npos) << file.error().message;
  }

  testing::TempFolder folder_;
  fs::path dir_ = folder_.path();
};

TEST_F(GgufSplitTest, JoinsTheShards) {
  const fs::path first = write_three();
  const auto file = GgufFile::open(first);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 3u);
  for (const char* name : {"a", "b", "c"}) EXPECT_NE(file->find_tensor(name), nullptr);
  EXPECT_EQ(*file->require_string("general.architecture"), "llama");
  EXPECT_EQ(file->file_bytes(), fs::file_size(dir_ / "m-00001-of-00003.gguf") +
                                    fs::file_size(dir_ / "m-00002-of-00003.gguf") +
                                    fs::file_size(dir_ / "m-00003-of-00003.gguf"));
}

TEST_F(GgufSplitTest, OpensOnlyFromTheFirst) {
  write_three();
  expect_refused(
      dir_ / "m-00002-of-00003.gguf",
      "this is shard 2 of 3 of a split model; open the first one, m-00001-of-00003.gguf");
}

TEST_F(GgufSplitTest, MissingShard) {
  const fs::path first = write_three();
  fs::remove(dir_ / "m-00003-of-00003.gguf");
  expect_refused(first, "m-00003-of-00003.gguf: No such file");
}

TEST_F(GgufSplitTest, NameThatTheOthersCannotBeFoundBy) {
  write_three();
  fs::rename(dir_ / "m-00001-of-00003.gguf", dir_ / "model.gguf");
  expect_refused(dir_ / "model.gguf", "its name must end in '-00001-of-00003.gguf'");
}

TEST_F(GgufSplitTest, ShardsThatDisagree) {
  const fs::path first = write_three();
  write("m-00002-of-00003.gguf", {2, 3, 3, "b"});
  expect_refused(first, "say it is shard 3 of 3, not shard 2 of 3");
  write("m-00002-of-00003.gguf", {1, 4, 3, "b"});
  expect_refused(first, "say it is shard 2 of 4, not shard 2 of 3");
  write("m-00002-of-00003.gguf", {1, 3, 9, "b"});
  expect_refused(first, "'split.tensors.count' differs");
  write("m-00002-of-00003.gguf", {1, 3, 3, "a"});
  expect_refused(first, "tensor 'a' (at byte");
}

TEST_F(GgufSplitTest, TensorCountThatIsNotMet) {
  write("m-00002-of-00002.gguf", {1, 2, 5, "b"});
  const fs::path first = write("m-00001-of-00002.gguf", {0, 2, 5, "a"});
  expect_refused(first, "'split.tensors.count' is 5, but the 2 shards hold 2 tensors");
}

// Nothing of it is kept, and there may be thousands.
TEST_F(GgufSplitTest, ALaterShardWithMuchMetadataIsRefused) {
  write_three();
  GgufWriter w;
  w.key("split.no", ByteWriter().type(GgufType::kUint16).put(std::uint16_t{1}));
  w.key("split.count", ByteWriter().type(GgufType::kUint16).put(std::uint16_t{3}));
  w.i32("split.tensors.count", 3);
  w.array("x", GgufType::kUint8, std::vector<std::uint8_t>(20'000));
  const auto bytes = w.build();
  std::ofstream(dir_ / "m-00002-of-00003.gguf", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
  expect_refused(dir_ / "m-00001-of-00003.gguf",
                 "with it the metadata needs more than the 65536 bytes allowed");
}

TEST_F(GgufSplitTest, HostileSplitKeys) {
  expect_refused(write("m-00001-of-65535.gguf", {0, 65535, 1, "a"}), "key 'split.count' at byte");
  expect_refused(write("m-00001-of-00002.gguf", {2, 2, 1, "a"}), "key 'split.no' at byte");
  expect_refused(write("m-00001-of-00002.gguf", {0, 2, -1, "a"}),
                 "key 'split.tensors.count' at byte");
}

TEST_F(GgufSplitTest, ParsingOneShardInMemoryIsRefused) {
  GgufWriter w;
  w.u32("split.no", 0);
  w.u32("split.count", 2);
  const auto bytes = w.build();
  const auto file = GgufFile::parse(bytes, "m");
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace quire
