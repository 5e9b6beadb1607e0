#pragma once
// What `quire bench` prints: a table in Markdown, or one JSON object. docs/cli.md describes both.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench_cost.h"
#include "cli/bench_measure.h"
#include "cli/roofline.h"

namespace quire {

struct BenchMachine {
  std::string cpu;  // as the system names it
  std::size_t cpus = 0;
  std::string isa;  // in use
};

BenchMachine describe_machine(const std::filesystem::path& cpuinfo = "/proc/cpuinfo");

struct BenchReport {
  const EngineOptions& options;  // with every default filled in
  const ModelSpec& spec;
  const ModelCost& cost;
  const BenchMachine& machine;
  const Roofline* roofline = nullptr;     // null: not measured
  std::span<const BenchSamples> samples;  // without seconds: not measured
  double load_s = 0;
  BenchRun run;
};

std::string bench_text(const BenchReport& report);
std::string bench_json(const BenchReport& report);

std::string roofline_text(const BenchMachine& machine, std::span<const Roofline> rooflines);
std::string roofline_json(const BenchMachine& machine, std::span<const Roofline> rooflines);

/// Aligned, so that it reads well as plain text too: the first column to the left, the others to
/// the right. Each row is as long as the header.
std::string markdown_table(const std::vector<std::string>& header,
                           const std::vector<std::vector<std::string>>& rows);

}  // namespace quire
