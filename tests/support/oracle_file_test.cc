#include "tests/support/oracle_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "base/temp_folder_testing.h"

namespace quire::testing {
namespace {

const std::filesystem::path kTiny = std::filesystem::path(QUIRE_TEST_DATA) / "tiny";
const std::filesystem::path kLogits = std::filesystem::path(QUIRE_TEST_DATA) / "logits";

OracleRow row_of(std::vector<OracleLogit> logits, TokenId top, float margin) {
  OracleRow row;
  row.logits = std::move(logits);
  row.top = top;
  row.margin = margin;
  return row;
}

TEST(OracleFile, ATinyModelsRowsHoldTheWholeVocabulary) {
  const auto file = OracleFile::open(kTiny / "llama_mha_d64.oracle");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->vocab_size, 261u);
  ASSERT_EQ(file->texts.size(), 1u);
  const OracleText& text = file->texts[0];
  EXPECT_EQ(text.tokens.size(), 70u);
  ASSERT_FALSE(text.rows.empty());
  EXPECT_EQ(text.rows.front().position, 0u);
  EXPECT_EQ(text.rows.back().position, 69u);
  for (const OracleRow& row : text.rows) {
    ASSERT_EQ(row.logits.size(), 261u);
    double sum = 0;  // the writer computed logsumexp from the same logits
    for (const OracleLogit& logit : row.logits) sum += std::exp(double{logit.value});
    EXPECT_NEAR(std::log(sum), row.logsumexp, 1e-4);
  }
}

TEST(OracleFile, ARealModelsRowsCoverEveryPositionOfThreeTexts) {
  for (const char* name : {"smollm2-135m", "gemma-3-270m"}) {
    const auto file = OracleFile::open(kLogits / (std::string(name) + ".oracle"));
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_EQ(file->texts.size(), 3u);
    for (const OracleText& text : file->texts) {
      EXPECT_EQ(text.tokens.size(), 200u);
      ASSERT_EQ(text.rows.size(), 200u);
      EXPECT_GT(text.rows.back().logits.size(), 1000u);
      for (const OracleRow& row : text.rows) EXPECT_GE(row.margin, 0.0f);
    }
  }
}

TEST(OracleFile, ACutOrForeignFileIsRefused) {
  std::ifstream whole(kTiny / "llama_mha_d64.oracle", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(whole), {}};
  ASSERT_GT(bytes.size(), 1000u);
  const testing::TempFolder folder;
  const std::filesystem::path path = folder / "cut.oracle";
  std::string foreign = bytes;
  foreign[0] = 'X';
  for (const std::string& broken : {std::string(), bytes.substr(0, 20),
                                    bytes.substr(0, bytes.size() - 1), bytes + "x", foreign}) {
    std::ofstream(path, std::ios::binary) << broken;
    EXPECT_FALSE(OracleFile::open(path)) << broken.size() << " bytes";
  }
  std::filesystem::remove(path);
  EXPECT_FALSE(OracleFile::open(path));
}

TEST(OracleRow, TheLargestDifferenceIsFoundAndNanIsInfinite) {
  const OracleRow row = row_of({{0, 1.0f}, {2, -3.0f}}, 0, 4.0f);
  EXPECT_FLOAT_EQ(row.max_difference(std::vector<float>{1.5f, 9.0f, -2.0f}), 1.0f);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isinf(row.max_difference(std::vector<float>{nan, 9.0f, -3.0f})));
}

TEST(OracleRow, AnotherLeaderIsAllowedOnlyWithinTheTolerance) {
  const OracleRow row = row_of({{0, 1.0f}, {1, 0.9f}}, 0, 0.1f);
  const std::vector<float> swapped{0.9f, 1.0f};
  EXPECT_FALSE(row.top_agrees(swapped, 0.05f));
  EXPECT_TRUE(row.top_agrees(swapped, 0.2f));
  EXPECT_TRUE(row.top_agrees(std::vector<float>{1.0f, 0.9f}, 0.05f));
}

}  // namespace
}  // namespace quire::testing
