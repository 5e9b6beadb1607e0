#include "model/weights.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace quire {
namespace {

TEST(CheckTensors, AcceptsEveryModelThatLoads) {
  int n_models = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(QUIRE_TEST_DATA) / "tiny")) {
    if (entry.path().extension() != ".gguf") continue;
    const auto file = GgufFile::open(entry.path());
    ASSERT_TRUE(file.has_value()) << file.error().message;
    const auto spec = read_model_spec(*file);
    ASSERT_TRUE(spec.has_value()) << spec.error().message;
    const Status checked = check_tensors(*file, *spec);
    EXPECT_TRUE(checked.has_value()) << checked.error().message;
    ++n_models;
  }
  EXPECT_GE(n_models, 20);
}

TEST(CheckTensors, NamesWhatIsWrong) {
  const auto file =
      GgufFile::open(std::filesystem::path(QUIRE_TEST_DATA) / "tiny/llama_gqa2_d80.gguf");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const auto good = read_model_spec(*file);
  ASSERT_TRUE(good.has_value()) << good.error().message;
  const auto refusal = [&](const ModelSpec& spec) {
    const Status checked = check_tensors(*file, spec);
    return checked.has_value() ? std::string("accepted") : checked.error().message;
  };
  ModelSpec spec = *good;
  spec.layers.push_back(spec.layers.back());
  EXPECT_NE(refusal(spec).find("'blk.2.attn_norm.weight' is missing"), std::string::npos)
      << refusal(spec);
  spec = *good;
  spec.layers.pop_back();
  EXPECT_NE(refusal(spec).find("'blk.1."), std::string::npos) << refusal(spec);
  EXPECT_NE(refusal(spec).find("has no place in this architecture"), std::string::npos);
  spec = *good;
  spec.layers[1].ffn_dim += 32;
  EXPECT_NE(refusal(spec).find("'blk.1.ffn_gate.weight'"), std::string::npos) << refusal(spec);
  spec = *good;
  spec.n_vocab += 1;
  EXPECT_NE(refusal(spec).find("'token_embd.weight'"), std::string::npos) << refusal(spec);
  spec = *good;
  spec.has_qk_norm = true;
  EXPECT_NE(refusal(spec).find("attn_q_norm.weight' is missing"), std::string::npos)
      << refusal(spec);
}

}  // namespace
}  // namespace quire
