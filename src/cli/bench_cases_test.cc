#include "cli/bench_cases.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "cli/bench_measure.h"
#include "engine/engine_test_support.h"

namespace quire {
namespace {

using Counts = std::vector<std::size_t>;

TEST(BenchCounts, AreAListOfIntegers) {
  EXPECT_EQ(*parse_counts("512", 1, 1000), (Counts{512}));
  EXPECT_EQ(*parse_counts("0,512,7", 0, 1000), (Counts{0, 512, 7}));
  EXPECT_EQ(*parse_counts("010", 0, 1000), (Counts{10}));
  EXPECT_EQ(*parse_counts("none", 1, 1000), Counts{});
}

TEST(BenchCounts, RefuseEverythingElse) {
  for (const char* bad :
       {"",       ",",    "1,",    ",1",   "1,,2", "1;2", "1 ,2", " 1",
        "-1",     "+1",   "1.5",   "0x10", "1e3",  "0",   "1001", "99999999999999999999999",
        "none,1", "None", "5,6,5", "5,05"}) {
    EXPECT_FALSE(parse_counts(bad, 1, 1000)) << bad;
  }
  EXPECT_NE(parse_counts("5,6,5", 1, 9).error().message.find("names 5 twice"), std::string::npos);
}

TEST(BenchPlan, IsEveryPromptThenEveryDepthWithEveryBatch) {
  const BenchPlan plan{.prompts = {512, 16}, .depths = {0, 8}, .batches = {1, 4}, .generate = 3};
  const auto cases = plan.cases();
  std::vector<std::string> names;
  for (const auto& c : cases) names.push_back(c.name());
  EXPECT_EQ(names, (std::vector<std::string>{"prefill 512", "prefill 16", "decode 3 at depth 0",
                                             "decode 3 at depth 0, batch 4", "decode 3 at depth 8",
                                             "decode 3 at depth 8, batch 4"}));
  EXPECT_EQ(cases[0].tokens(), 512u);
  EXPECT_EQ(cases[0].context(), 512u);
  EXPECT_EQ(cases[5].tokens(), 12u);
  EXPECT_EQ(cases[5].context(), 11u);
}

// Two layers of one head of 8 elements in f16: pages of 16 tokens are 16 * 2 * 8 * 2 = 512 bytes.
KvConfig two_layers(std::size_t second_window) {
  const KvLayout layout{.n_kv_heads = 1, .head_dim = 8, .page_size = 16};
  return {.layers = {{layout, 0}, {layout, second_window}}, .budget_bytes = 0};
}

TEST(BenchKvMemory, IsWhatTheSequencesAndTheirForksTake) {
  const auto pages = [](const KvConfig& config, const BenchCase& c) {
    return kv_bytes_for_case(config, c, 32) / 512;
  };
  const KvConfig full = two_layers(0);
  EXPECT_EQ(pages(full, {.is_prefill = true, .prompt = 33}), 2 * 3u);
  // From nothing: one page for 16 tokens, two for 17.
  EXPECT_EQ(pages(full, {.depth = 0, .batch = 1, .generate = 16}), 2 * 1u);
  EXPECT_EQ(pages(full, {.depth = 0, .batch = 3, .generate = 17}), 2 * 3 * 2u);
  // 32 tokens fill two pages; the fork adds one of its own.
  EXPECT_EQ(pages(full, {.depth = 32, .batch = 1, .generate = 1}), 2 * (2 + 1u));
  // 33 tokens begin a third page, which the fork copies.
  EXPECT_EQ(pages(full, {.depth = 33, .batch = 1, .generate = 1}), 2 * (3 + 1u));
  // Three sequences with the same 33 tokens: three pages once, and for each a copy of the third.
  EXPECT_EQ(pages(full, {.depth = 33, .batch = 3, .generate = 1, .shared = true}), 2 * (3 + 3u));
  // A window of 20 keeps at most 20 + 32 + 16 of 1,000 tokens while a chunk is in flight.
  EXPECT_EQ(pages(two_layers(20), {.is_prefill = true, .prompt = 1000}), 63 + 5u);
}

TEST(BenchKvMemory, TooLargeToCountIsTheLargestNumber) {
  KvConfig config = two_layers(0);
  config.layers.resize(1000, config.layers[0]);
  for (auto& layer : config.layers) layer.layout.n_kv_heads = 1u << 20;
  EXPECT_EQ(kv_bytes_for_case(config, {.depth = 10'000'000, .batch = 1u << 20, .generate = 1}, 1),
            ~std::uint64_t{0});
}

struct Tiny {
  EngineOptions options;
  ModelSpec spec;
};

Tiny tiny(const std::string& name) {
  EngineOptions options = testing::tiny_options(name);
  options.kv_memory = 0;
  options.prefill_chunk = 16;
  const auto file = GgufFile::open(options.model);
  return {options, *read_model_spec(*file)};
}

TEST(BenchOptions, HoldTheLongestCase) {
  const auto [given, spec] = tiny("llama_mha_d64");
  const std::vector<BenchCase> cases = {{.is_prefill = true, .prompt = 20},
                                        {.depth = 20, .batch = 2, .generate = 5}};
  const auto options = options_for_cases(given, spec, cases, 1 << 30);
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->context, 25u);
  // 2 layers, 2 heads of 64 elements in f16: 8 KiB a page. Each sequence: 2 pages and a copy.
  EXPECT_EQ(options->kv_memory, 2 * 2 * (2 + 1) * 8192u);
}

TEST(BenchOptions, TooLittleMemoryNamesTheCaseAndBothNumbers) {
  auto [given, spec] = tiny("llama_mha_d64");
  const std::vector<BenchCase> cases = {{.depth = 20, .batch = 2, .generate = 5}};
  given.kv_memory = 32 * 1024;
  EXPECT_EQ(options_for_cases(given, spec, cases, 1 << 30).error().message,
            "decode 5 at depth 20, batch 2 needs 96.0 KiB of KV memory, the budget is 32.0 KiB "
            "(see --kv-memory)");
  given.kv_memory = 0;
  EXPECT_EQ(options_for_cases(given, spec, cases, 64 * 1024).error().message,
            "decode 5 at depth 20, batch 2 needs 96.0 KiB of KV memory, 64.0 KiB are available");
}

// What was promised suffices, with windows and without, and is not more than needed without.
TEST(BenchOptions, TheMemoryPlannedIsEnough) {
  for (const char* name : {"llama_mha_d64", "llama_window", "gemma3_pattern"}) {
    const auto [given, spec] = tiny(name);
    for (const std::size_t depth : {0, 15, 16, 17, 61}) {
      const std::vector<BenchCase> cases = {{.is_prefill = true, .prompt = depth + 1},
                                            {.depth = depth, .batch = 3, .generate = 7}};
      auto options = options_for_cases(given, spec, cases, 1 << 30);
      ASSERT_TRUE(options);
      const auto engine = testing::load(*options);
      const auto samples = run_cases(*engine, cases, {.repeat = 1}, {});
      ASSERT_TRUE(samples) << name << " " << depth << ": " << samples.error().message;
      EXPECT_EQ(samples->size(), 2u);
      EXPECT_EQ(engine->kv().stats().bytes_used, 0u);
      if (std::string_view(name) != "llama_mha_d64") continue;
      options->kv_memory -= 1;
      EXPECT_FALSE(run_cases(*testing::load(*options), cases, {.repeat = 1}, {})) << depth;
    }
  }
}

}  // namespace
}  // namespace quire
