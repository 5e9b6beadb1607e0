// Logits against transformers in float32 on the same weights (tests/oracle makes the files).

#include <gtest/gtest.h>

#include <filesystem>

#include "model/model_test_support.h"
#include "tests/support/oracle_file.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using testing::ModelRunner;
using testing::OracleFile;
using testing::RunnerOptions;

/// The project's bar for the reference mode on real models.
constexpr float kTolerance = 5e-3f;
/// Tiny models are small sums: float32 in another order differs by some 1e-5, and by 1e-4 over 62
/// layers.
constexpr float kTinyTolerance = 1e-3f;

void expect_matches(const fs::path& model, const fs::path& oracle_path, RunnerOptions options,
                    float tolerance) {
  SCOPED_TRACE(model.filename().string());
  const auto oracle = OracleFile::open(oracle_path);
  ASSERT_TRUE(oracle.has_value()) << oracle.error().message;
  ModelRunner runner(model, options);
  ASSERT_EQ(runner.n_vocab(), oracle->vocab_size);
  float worst = 0;
  for (const auto& text : oracle->texts) {
    const std::vector<float> logits = runner.run(text.tokens, 64);
    for (const auto& row : text.rows) {
      const std::span<const float> got(logits.data() + row.position * runner.n_vocab(),
                                       runner.n_vocab());
      const float difference = row.max_difference(got);
      worst = std::max(worst, difference);
      ASSERT_LE(difference, tolerance) << "position " << row.position;
      ASSERT_TRUE(row.top_agrees(got, tolerance)) << "position " << row.position;
    }
  }
  ::testing::Test::RecordProperty(model.stem().string(), fmt::format("{:.2e}", worst));
  fmt::print("{}: largest logit difference {:.2e}\n", model.filename().string(), worst);
}

fs::path real_model(const char* name) {
  const fs::path path = fs::path(QUIRE_MODELS) / name;
  EXPECT_TRUE(fs::exists(path)) << path << " is missing: run 'make models'";
  return path;
}

class TinyModel : public ::testing::TestWithParam<fs::path> {};

TEST_P(TinyModel, MatchesTransformers) {
  fs::path oracle = GetParam();
  expect_matches(GetParam(), oracle.replace_extension(".oracle"), {}, kTinyTolerance);
}

std::vector<fs::path> tiny_models() {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(fs::path(QUIRE_TEST_DATA) / "tiny"))
    if (entry.path().extension() == ".gguf") out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, TinyModel, ::testing::ValuesIn(tiny_models()),
                         [](const auto& param) { return param.param.stem().string(); });

TEST(RealModel, SmolLM2MatchesTransformers) {
  expect_matches(real_model("SmolLM2-135M-Instruct.Q4_1.gguf"),
                 fs::path(QUIRE_TEST_DATA) / "logits" / "smollm2-135m.oracle", {.n_threads = 2},
                 kTolerance);
}

TEST(RealModel, Gemma3MatchesTransformers) {
  expect_matches(real_model("gemma-3-270m.Q4_K_M.gguf"),
                 fs::path(QUIRE_TEST_DATA) / "logits" / "gemma-3-270m.oracle", {.n_threads = 2},
                 kTolerance);
}

}  // namespace
}  // namespace quire
