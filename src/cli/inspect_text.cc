// The form of `quire inspect` that people read.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/bytes.h"
#include "cli/inspect.h"
#include "model/gguf_text.h"

namespace quire {
namespace {

constexpr std::size_t kMaxShownItems = 16;  // items of an array that are shown

// "134.5 M", for counts.
std::string short_count(std::uint64_t n) {
  if (n < 1000) return fmt::format("{}", n);
  double value = static_cast<double>(n);
  const char* unit = "";
  for (const char* next : {" k", " M", " G", " T"}) {
    if (value < 1000) break;
    value /= 1000;
    unit = next;
  }
  return fmt::format("{:.1f}{}", value, unit);
}

std::string value_text(const GgufValue& value) {
  struct Visitor {
    std::string operator()(std::uint64_t v) const { return fmt::format("{}", v); }
    std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return fmt::format("{:.9g}", v); }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(std::string_view v) const { return printable(v, 72); }
    std::string operator()(const GgufArray& v) const {
      if (v.size() > kMaxShownItems) return fmt::format("({} items)", v.size());
      return std::visit(
          [this](const auto& items) {
            std::vector<std::string> texts;
            for (const auto& item : items) texts.push_back((*this)(item));
            return fmt::format("[{}]", fmt::join(texts, ", "));
          },
          v.items);
    }
  };
  return std::visit(Visitor{}, value);
}

class TextReport {
 public:
  void line(std::string_view label, std::string_view value) {
    fmt::format_to(std::back_inserter(out_), "{:<32}  {}\n", label, value);
  }
  void heading(std::string_view text) { fmt::format_to(std::back_inserter(out_), "\n{}\n", text); }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

void add_head(TextReport& report, const GgufFile& file, const ModelSummary& summary) {
  report.line("file", printable(file.name(), 4096));
  report.line("size",
              fmt::format("{} ({} bytes)", format_byte_size(file.file_bytes()), file.file_bytes()));
  report.line("architecture",
              summary.architecture.empty() ? "(not given)" : printable(summary.architecture));
  report.line("parameters",
              fmt::format("{} ({})", short_count(summary.n_parameters), summary.n_parameters));
  std::vector<std::string> types;
  for (const auto& [name, count] : summary.tensors_by_type)
    types.push_back(fmt::format("{} {}", count, name));
  report.line("tensors",
              fmt::format("{}, {}: {}", file.tensors().size(),
                          format_byte_size(summary.tensor_bytes), fmt::join(types, ", ")));
}

void add_kv(TextReport& report, const KvSummary& kv) {
  const auto [low, high] = std::minmax_element(kv.n_kv_heads.begin(), kv.n_kv_heads.end());
  report.heading("KV cache");
  report.line("layers", fmt::format("{}", kv.n_layers));
  report.line("KV heads per layer",
              *low == *high ? fmt::format("{}", *low) : fmt::format("{} to {}", *low, *high));
  report.line("key / value length", fmt::format("{} / {}", kv.key_length, kv.value_length));
  for (const auto& [name, bytes] : {std::pair{"f32", 4}, {"f16", 2}, {"bf16", 2}}) {
    const std::uint64_t per_token = kv.bytes_per_token(static_cast<std::uint64_t>(bytes));
    report.line(fmt::format("per token, {}", name),
                fmt::format("{} bytes ({})", per_token, format_byte_size(per_token)));
  }
  if (kv.window > 0)
    report.line("window", fmt::format("some layers keep only the last {} tokens", kv.window));
}

void add_tokenizer(TextReport& report, const TokenizerSummary& tokenizer) {
  report.heading("Tokenizer");
  report.line("model", printable(tokenizer.model) +
                           (tokenizer.data ? "" : " (a kind that cannot be used here)"));
  report.line("vocabulary", fmt::format("{} tokens", tokenizer.vocab_size));
  if (tokenizer.data) {
    const TokenizerData& data = *tokenizer.data;
    report.line("pre-tokenizer", data.pre.empty() ? "(not given)" : printable(data.pre));
    if (tokenizer.n_merges > 0) report.line("merges", fmt::format("{}", tokenizer.n_merges));
    const std::pair<const char*, std::optional<TokenId>> ids[] = {
        {"bos", data.bos}, {"eos", data.eos}, {"eot", data.eot},
        {"eom", data.eom}, {"unk", data.unk}, {"pad", data.pad}};
    for (const auto& [name, id] : ids)
      if (id)
        report.line(name, fmt::format("{} '{}'", *id,
                                      printable(data.tokens[static_cast<std::size_t>(*id)])));
    report.line(
        "adds",
        fmt::format("{}",
                    fmt::join({data.add_bos ? "bos" : "no bos", data.add_eos ? "eos" : "no eos",
                               data.add_space_prefix ? "space prefix" : "no space prefix"},
                              ", ")));
  }
  report.line("chat template", tokenizer.chat_template_bytes == 0
                                   ? std::string("none")
                                   : fmt::format("{} bytes", tokenizer.chat_template_bytes));
}

void add_metadata(TextReport& report, const GgufFile& file, const ModelSummary& summary) {
  report.heading("Hyper-parameters");
  const std::string prefix = summary.architecture + ".";
  for (const GgufKeyValue& kv : file.metadata())
    if (kv.key.starts_with(prefix)) report.line(kv.key.substr(prefix.size()), value_text(kv.value));
  report.heading("Other keys");
  for (const GgufKeyValue& kv : file.metadata())
    if (!kv.key.starts_with(prefix) && !kv.key.starts_with("tokenizer."))
      report.line(printable(kv.key), value_text(kv.value));
}

void add_tensors(TextReport& report, const GgufFile& file) {
  report.heading("Tensors");
  for (const GgufTensor& tensor : file.tensors())
    report.line(printable(tensor.name),
                fmt::format("{:<7} {:<20} {:>12}", tensor_type_info(tensor.type).name,
                            fmt::format("{}", fmt::join(tensor.ne, " x ")), tensor.data.size()));
}

}  // namespace

std::string inspect_text(const GgufFile& file, const ModelSummary& summary) {
  TextReport report;
  add_head(report, file, summary);
  if (summary.kv) add_kv(report, *summary.kv);
  if (summary.tokenizer) add_tokenizer(report, *summary.tokenizer);
  add_metadata(report, file, summary);
  add_tensors(report, file);
  return report.take();
}

}  // namespace quire
