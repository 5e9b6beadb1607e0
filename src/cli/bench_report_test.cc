#include "cli/bench_report.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

#include "base/temp_folder_testing.h"

namespace quire {
namespace {

namespace json = boost::json;

// A model of one layer whose limits are round numbers: a pass reads 1,000 + 250 bytes of weights
// and 50 bytes of cache per token seen, which at 1,000 bytes/s is the longer part of a step.
class BenchReportTest : public ::testing::Test {
 protected:
  BenchReportTest() {
    options_.model = "models/some model.gguf";
    options_.kv_type = KvType::kBF16;
    options_.n_threads = 3;
    spec_.architecture = "llama";
    const KvLayout layout{
        .k_type = KvType::kF16, .v_type = KvType::kF16, .n_kv_heads = 1, .head_dim = 25};
    cost_ = {.layers = {.weight_bytes = 1000, .int8_macs = 400},
             .output = {.weight_bytes = 250, .int8_macs = 100},
             .kv = {.layers = {{layout, 0}}, .budget_bytes = 0}};
  }

  BenchReport report() const {
    return {.options = options_,
            .spec = spec_,
            .cost = cost_,
            .machine = machine_,
            .roofline = &roofline_,
            .samples = samples_,
            .load_s = 1.5,
            .run = {.repeat = 2}};
  }

  EngineOptions options_;
  ModelSpec spec_;
  ModelCost cost_;
  const BenchMachine machine_ = {.cpu = "A CPU", .cpus = 4, .isa = "avx2"};
  const Roofline roofline_ = {
      .n_threads = 3, .memory_bytes = 1000, .cache_bytes = 9, .int8_macs = 800, .f32_macs = 80};
  const std::vector<BenchSamples> samples_ = {{{.is_prefill = true, .prompt = 8}, {10, 20}},
                                              {{.depth = 4, .batch = 2, .generate = 1}, {4, 5}}};
};

TEST_F(BenchReportTest, TheTableIsMarkdownInAlignedColumns) {
  const std::string text = bench_text(report());
  EXPECT_NE(text.find("- model: some model.gguf, llama"), std::string::npos) << text;
  EXPECT_NE(text.find("- machine: A CPU, 3 threads, avx2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("- settings: bf16 KV in pages of 16, prefill chunks of 256, 2 repetitions"),
            std::string::npos)
      << text;
  // Prefill: 8 * 400 + 100 multiply-adds take 4.125 s, reading 1,250 + 8 * 100 bytes 2.05 s; the
  // rates are 0.8 and 0.4 tokens/s. Decode: 1,250 + 2 * 5 * 100 bytes take 2.25 s, 2 * 500
  // multiply-adds 1.25 s; 0.5 and 0.4 tokens/s.
  EXPECT_TRUE(
      text.ends_with("\n\n"
                     "| work                         | tokens/s, median | min | max | limit | "
                     "reached | bound by |\n"
                     "|:-----------------------------|-----------------:|----:|----:|------:|------"
                     "--:|---------:|\n"
                     "| prefill 8                    |              0.6 | 0.4 | 0.8 |   1.9 |    "
                     "31 % |  compute |\n"
                     "| decode 1 at depth 4, batch 2 |              0.5 | 0.4 | 0.5 |   0.9 |    "
                     "51 % |   memory |\n"))
      << text;
}

TEST_F(BenchReportTest, WhatWasNotMeasuredHasNoColumnAndNoKey) {
  BenchReport without_limits = report();
  without_limits.roofline = nullptr;
  without_limits.run.greedy = true;
  const std::string text = bench_text(without_limits);
  EXPECT_EQ(text.find("limits"), std::string::npos) << text;
  EXPECT_NE(text.find("2 repetitions, greedy\n"), std::string::npos) << text;
  EXPECT_TRUE(
      text.ends_with("| work                         | tokens/s, median | min | max |\n"
                     "|:-----------------------------|-----------------:|----:|----:|\n"
                     "| prefill 8                    |              0.6 | 0.4 | 0.8 |\n"
                     "| decode 1 at depth 4, batch 2 |              0.5 | 0.4 | 0.5 |\n"))
      << text;
  const json::value out = json::parse(bench_json(without_limits));
  EXPECT_TRUE(out.at("roofline").is_null());
  EXPECT_EQ(out.at("settings").at("greedy"), true);
  EXPECT_FALSE(out.at("results").at(0).as_object().contains("roofline"));

  const std::vector<BenchSamples> none = {{samples_[0].bench_case, {}}};
  BenchReport dry = report();
  dry.samples = none;
  EXPECT_TRUE(
      bench_text(dry).ends_with("| work      | limit | bound by |\n"
                                "|:----------|------:|---------:|\n"
                                "| prefill 8 |   1.9 |  compute |\n"))
      << bench_text(dry);
  const json::value result = json::parse(bench_json(dry)).at("results").at(0);
  EXPECT_FALSE(result.as_object().contains("tokens_per_s"));
  EXPECT_DOUBLE_EQ(result.at("roofline").at("tokens_per_s").as_double(), 8 / 4.125);
  EXPECT_FALSE(result.at("roofline").as_object().contains("fraction"));
}

TEST_F(BenchReportTest, TheJsonHasSettingsSamplesAndLimits) {
  const std::string text = bench_json(report());
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const json::object out = json::parse(text).as_object();
  EXPECT_EQ(out.at("model").at("file"), "models/some model.gguf");
  EXPECT_EQ(out.at("model").at("weight_bytes"), 1250);
  EXPECT_EQ(out.at("machine"), json::parse(R"({"cpu": "A CPU", "cpus": 4, "isa": "avx2"})"));
  EXPECT_EQ(out.at("settings").at("threads"), 3);
  EXPECT_EQ(out.at("settings").at("kv_type"), "bf16");
  EXPECT_EQ(out.at("settings").at("precision"), "fast");
  EXPECT_EQ(out.at("settings").at("repeat"), 2);
  EXPECT_EQ(out.at("roofline").at("int8_macs_per_s"), 800.0);

  const json::array& results = out.at("results").as_array();
  ASSERT_EQ(results.size(), 2u);
  const json::object& prefill = results[0].as_object();
  EXPECT_EQ(prefill.at("work"), "prefill");
  EXPECT_EQ(prefill.at("prompt"), 8);
  EXPECT_FALSE(prefill.contains("depth"));
  EXPECT_EQ(prefill.at("seconds"), json::array({10.0, 20.0}));
  EXPECT_EQ(prefill.at("tokens_per_s").at("samples"), json::array({0.8, 0.4}));

  const json::object& decode = results[1].as_object();
  EXPECT_EQ(decode.at("work"), "decode");
  EXPECT_EQ(decode.at("depth"), 4);
  EXPECT_EQ(decode.at("batch"), 2);
  EXPECT_EQ(decode.at("generate"), 1);
  EXPECT_FALSE(decode.contains("prompt"));
  const auto number = [&](const char* group, const char* key) {
    return decode.at(group).at(key).as_double();
  };
  EXPECT_DOUBLE_EQ(number("tokens_per_s", "median"), 0.45);
  EXPECT_DOUBLE_EQ(number("per_token", "weight_bytes"), 625);
  EXPECT_DOUBLE_EQ(number("per_token", "kv_bytes"), 500);
  EXPECT_DOUBLE_EQ(number("per_token", "bytes"), 1125);
  EXPECT_DOUBLE_EQ(number("per_token", "int8_macs"), 500);
  EXPECT_EQ(decode.at("roofline").at("bound"), "memory");
  EXPECT_DOUBLE_EQ(number("roofline", "tokens_per_s"), 2 / 2.25);
  EXPECT_DOUBLE_EQ(number("roofline", "fraction"), 0.45 / 2 * 2.25);
  EXPECT_DOUBLE_EQ(number("roofline", "bandwidth_fraction"), 0.45 / 2 * 2.25);
  EXPECT_DOUBLE_EQ(number("roofline", "compute_fraction"), 0.45 / 2 * 1.25);
}

TEST(RooflineReport, HasARowOrAnObjectPerNumberOfThreads) {
  const BenchMachine machine{.cpu = "Half\xff a\x1b[2J CPU", .cpus = 2, .isa = "scalar"};
  const Roofline rooflines[] = {{1, 12.34e9, 56e9, 7e9, 0.96e9, 0},
                                {2, 20e9, 100e9, 14e9, 2e9, 4e9}};
  EXPECT_EQ(
      roofline_text(machine, rooflines),
      "- machine: Half\\xff a\\x1b[2J CPU, scalar\n\n"
      "| limits    | memory, GB/s | cache, GB/s | int8, GMAC/s | f32, GMAC/s | bf16, GMAC/s |\n"
      "|:----------|-------------:|------------:|-------------:|------------:|-------------:|\n"
      "| 1 thread  |         12.3 |        56.0 |          7.0 |         1.0 |            - |\n"
      "| 2 threads |         20.0 |       100.0 |         14.0 |         2.0 |          4.0 |\n");
  const json::value out = json::parse(roofline_json(machine, rooflines));
  EXPECT_EQ(out.at("roofline").as_array().size(), 2u);
  EXPECT_EQ(out.at("roofline").at(1), json::parse(R"({"threads": 2, "memory_bytes_per_s": 20e9,
      "cache_bytes_per_s": 100e9, "int8_macs_per_s": 14e9, "f32_macs_per_s": 2e9,
      "bf16_macs_per_s": 4e9})"));
  EXPECT_TRUE(out.at("roofline").at(0).at("bf16_macs_per_s").is_null());
}

TEST(BenchMachine, IsNamedByTheSystem) {
  const testing::TempFolder folder;
  const auto file = folder.path() / "cpuinfo";
  std::ofstream(file) << "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Other\n";
  EXPECT_EQ(describe_machine(file).cpu, "Some CPU @ 2 GHz");
  std::ofstream(file) << "processor\t: 0\nBogoMIPS\t: 50.00\n";
  EXPECT_NE(describe_machine(file).cpu, "");  // the architecture at least
  EXPECT_NE(describe_machine("no such file").cpu, "");
  EXPECT_GE(describe_machine().cpus, 1u);
}

}  // namespace
}  // namespace quire
