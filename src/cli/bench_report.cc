#include "cli/bench_report.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <boost/json.hpp>
#include <fstream>
#include <initializer_list>
#include <optional>

#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "model/gguf_text.h"
#include "text/utf8.h"

namespace quire {
namespace {

namespace json = boost::json;

/// A sample beside the limit of what it had to do, each as far as it was measured.
struct Reached {
  BenchWork work;  // of one sample
  std::optional<BenchLimit> limit;
  double tokens = 0;
  std::optional<BenchStatistics> rate;  // tokens/s

  double limit_rate() const { return tokens / limit->seconds(); }
  double fraction() const { return rate->median / limit_rate(); }
  /// Of the bandwidth alone, or of the peaks alone.
  double bandwidth_fraction() const { return rate->median * limit->memory_s / tokens; }
  double compute_fraction() const { return rate->median * limit->compute_s / tokens; }
  const char* bound() const { return limit->memory_s > limit->compute_s ? "memory" : "compute"; }
};

Reached reached(const BenchReport& report, const BenchSamples& samples) {
  const BenchWork work = case_work(report.cost, samples.bench_case, report.options.prefill_chunk);
  Reached out{.work = work,
              .limit = {},
              .tokens = static_cast<double>(samples.bench_case.tokens()),
              .rate = {}};
  if (report.roofline != nullptr) out.limit = work_limit(work, *report.roofline);
  if (!samples.seconds.empty()) out.rate = statistics(samples.tokens_per_second());
  return out;
}

/// Four digits are more than the machine repeats.
std::string rate_text(double rate) {
  return rate < 100 ? fmt::format("{:.1f}", rate) : fmt::format("{:.0f}", rate);
}

std::string percent(double fraction) { return fmt::format("{:.0f} %", 100 * fraction); }
std::string giga(double value) { return fmt::format("{:.1f}", value / 1e9); }

std::string threads_text(std::size_t n) { return fmt::format("{} thread{}", n, n == 1 ? "" : "s"); }

json::object machine_json(const BenchMachine& machine) {
  return {{"cpu", replace_invalid_utf8(machine.cpu)}, {"cpus", machine.cpus}, {"isa", machine.isa}};
}

json::object roofline_object(const Roofline& roofline) {
  return {{"threads", roofline.n_threads},
          {"memory_bytes_per_s", roofline.memory_bytes},
          {"cache_bytes_per_s", roofline.cache_bytes},
          {"int8_macs_per_s", roofline.int8_macs},
          {"f32_macs_per_s", roofline.f32_macs},
          {"bf16_macs_per_s",
           roofline.bf16_macs > 0 ? json::value(roofline.bf16_macs) : json::value()}};
}

json::object result_json(const BenchReport& report, const BenchSamples& samples) {
  const BenchCase& c = samples.bench_case;
  const Reached r = reached(report, samples);
  json::object out{{"work", c.is_prefill ? "prefill" : "decode"}};
  if (c.is_prefill) {
    out["prompt"] = c.prompt;
  } else {
    out["depth"] = c.depth;
    out["batch"] = c.batch;
    out["shared"] = c.shared;
    out["generate"] = c.generate;
  }
  if (r.rate) {
    const auto rates = samples.tokens_per_second();
    out["seconds"] = json::array(samples.seconds.begin(), samples.seconds.end());
    out["tokens_per_s"] = json::object{{"min", r.rate->min},
                                       {"median", r.rate->median},
                                       {"max", r.rate->max},
                                       {"samples", json::array(rates.begin(), rates.end())}};
  }
  out["per_token"] =
      json::object{{"bytes", static_cast<double>(r.work.bytes()) / r.tokens},
                   {"weight_bytes", static_cast<double>(r.work.weight_bytes) / r.tokens},
                   {"kv_bytes", static_cast<double>(r.work.kv_bytes) / r.tokens},
                   {"int8_macs", static_cast<double>(r.work.int8_macs) / r.tokens},
                   {"f32_macs", static_cast<double>(r.work.f32_macs) / r.tokens}};
  if (!r.limit) return out;
  json::object limit{{"bound", r.bound()}, {"tokens_per_s", r.limit_rate()}};
  if (r.rate) {
    limit["fraction"] = r.fraction();
    limit["bandwidth_fraction"] = r.bandwidth_fraction();
    limit["compute_fraction"] = r.compute_fraction();
  }
  out["roofline"] = std::move(limit);
  return out;
}

std::string settings_text(const BenchReport& report) {
  const EngineOptions& options = report.options;
  const BenchRun& run = report.run;
  return fmt::format(
      "- settings: {} KV in pages of {}, prefill chunks of {}, {} repetition{}{}{}\n",
      kv_type_name(options.kv_type), options.page_size, options.prefill_chunk, run.repeat,
      run.repeat == 1 ? "" : "s", run.greedy ? ", greedy" : "",
      options.precision == Precision::kReference ? ", f32 reference" : "");
}

/// Without the columns that were not measured.
std::string results_text(const BenchReport& report) {
  const bool has_limits = report.roofline != nullptr;
  const bool has_rates = !report.samples.empty() && !report.samples[0].seconds.empty();
  std::vector<std::string> header = {"work"};
  const auto append = [](std::vector<std::string>& row, std::initializer_list<std::string> cells) {
    row.insert(row.end(), cells);
  };
  if (has_rates) append(header, {"tokens/s, median", "min", "max"});
  if (has_limits) append(header, {"limit"});
  if (has_limits && has_rates) append(header, {"reached"});
  if (has_limits) append(header, {"bound by"});
  std::vector<std::vector<std::string>> rows;
  for (const BenchSamples& samples : report.samples) {
    const Reached r = reached(report, samples);
    std::vector<std::string>& row = rows.emplace_back(1, samples.bench_case.name());
    if (has_rates) {
      append(row, {rate_text(r.rate->median), rate_text(r.rate->min), rate_text(r.rate->max)});
    }
    if (has_limits) append(row, {rate_text(r.limit_rate())});
    if (has_limits && has_rates) append(row, {percent(r.fraction())});
    if (has_limits) append(row, {r.bound()});
  }
  return markdown_table(header, rows);
}

}  // namespace

BenchMachine describe_machine(const std::filesystem::path& cpuinfo) {
  BenchMachine out;
  out.cpus = available_cpus();
  out.isa = kernels().name;
  std::ifstream file(cpuinfo);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      out.cpu = line.substr(colon + 2);
      return out;
    }
  }
  utsname system{};  // ARM has no names there
  out.cpu = ::uname(&system) == 0 ? system.machine : "unknown CPU";
  return out;
}

std::string markdown_table(const std::vector<std::string>& header,
                           const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& cell : header) widths.push_back(cell.size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  const auto add = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      out += i == 0 ? fmt::format("| {:<{}} |", row[i], widths[i])
                    : fmt::format(" {:>{}} |", row[i], widths[i]);
    }
    out += "\n";
  };
  add(header);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    out += i == 0 ? fmt::format("|:{:-<{}}-|", "", widths[i])
                  : fmt::format("-{:-<{}}:|", "", widths[i]);
  }
  out += "\n";
  for (const auto& row : rows) add(row);
  return out;
}

std::string bench_text(const BenchReport& report) {
  const EngineOptions& options = report.options;
  std::string out = fmt::format(
      "- model: {}, {}, {:.1f} MB of packed weights, loaded in {:.2f} s\n",
      printable(options.model.filename().string()), printable(report.spec.architecture),
      static_cast<double>(report.cost.layers.weight_bytes + report.cost.output.weight_bytes) / 1e6,
      report.load_s);
  out += fmt::format("- machine: {}, {}, {}\n", printable(report.machine.cpu),
                     threads_text(options.n_threads), report.machine.isa);
  if (const Roofline* roofline = report.roofline) {
    out += fmt::format("- limits: reads {} GB/s, {} int8 and {} f32 GMAC/s\n",
                       giga(roofline->memory_bytes), giga(roofline->int8_macs),
                       giga(roofline->f32_macs));
  }
  return out + settings_text(report) + "\n" + results_text(report);
}

std::string bench_json(const BenchReport& report) {
  const EngineOptions& options = report.options;
  json::array results;
  for (const BenchSamples& samples : report.samples) {
    results.push_back(result_json(report, samples));
  }
  const ModelCost& cost = report.cost;
  json::object out{
      {"model",
       json::object{{"file", replace_invalid_utf8(options.model.string())},
                    {"architecture", replace_invalid_utf8(report.spec.architecture)},
                    {"weight_bytes", cost.layers.weight_bytes + cost.output.weight_bytes},
                    {"kv_bytes_per_token", report.spec.kv_bytes_per_token(options.kv_type)},
                    {"load_s", report.load_s}}},
      {"machine", machine_json(report.machine)},
      {"settings", json::object{{"threads", options.n_threads},
                                {"precision",
                                 options.precision == Precision::kReference ? "reference" : "fast"},
                                {"kv_type", kv_type_name(options.kv_type)},
                                {"kv_memory", options.kv_memory},
                                {"page_size", options.page_size},
                                {"prefill_chunk", options.prefill_chunk},
                                {"repeat", report.run.repeat},
                                {"greedy", report.run.greedy}}},
      {"roofline",
       report.roofline == nullptr ? json::value() : json::value(roofline_object(*report.roofline))},
      {"results", std::move(results)}};
  return json::serialize(out) + "\n";
}

std::string roofline_text(const BenchMachine& machine, std::span<const Roofline> rooflines) {
  std::string out = fmt::format("- machine: {}, {}\n\n", printable(machine.cpu), machine.isa);
  std::vector<std::vector<std::string>> rows;
  for (const Roofline& r : rooflines) {
    rows.push_back({threads_text(r.n_threads), giga(r.memory_bytes), giga(r.cache_bytes),
                    giga(r.int8_macs), giga(r.f32_macs),
                    r.bf16_macs > 0 ? giga(r.bf16_macs) : "-"});
  }
  return out + markdown_table({"limits", "memory, GB/s", "cache, GB/s", "int8, GMAC/s",
                               "f32, GMAC/s", "bf16, GMAC/s"},
                              rows);
}

std::string roofline_json(const BenchMachine& machine, std::span<const Roofline> rooflines) {
  json::array list;
  for (const Roofline& r : rooflines) list.push_back(roofline_object(r));
  const json::object out{{"machine", machine_json(machine)}, {"roofline", std::move(list)}};
  return json::serialize(out) + "\n";
}

}  // namespace quire
