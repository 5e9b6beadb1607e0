#include "cli/bench_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/bytes.h"
#include "base/math.h"
#include "kv/kv_arithmetic.h"

namespace quire {

std::string BenchCase::name() const {
  if (is_prefill) return fmt::format("prefill {}", prompt);
  std::string out = fmt::format("decode {} at depth {}", generate, depth);
  if (batch > 1) out += fmt::format(", {} {}", shared ? "shared by" : "batch", batch);
  return out;
}

std::vector<BenchCase> BenchPlan::cases() const {
  std::vector<BenchCase> out;
  for (const std::size_t prompt : prompts) out.push_back({.is_prefill = true, .prompt = prompt});
  for (const std::size_t depth : depths) {
    for (const std::size_t batch : batches) {
      out.push_back({.depth = depth, .batch = batch, .generate = generate, .shared = shared});
    }
  }
  return out;
}

Result<std::vector<std::size_t>> parse_counts(std::string_view text, std::size_t min,
                                              std::size_t max) {
  std::vector<std::size_t> out;
  if (text == "none") return out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    std::size_t value = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || rest != word.data() + word.size() || value < min || value > max) {
      return fail(ErrorCode::kInvalidArgument,
                  "'{}' is not a list of integers from {} to {} like 1,2,3", text, min, max);
    }
    if (std::find(out.begin(), out.end(), value) != out.end()) {
      return fail(ErrorCode::kInvalidArgument, "'{}' names {} twice", text, value);
    }
    out.push_back(value);
    begin = end + 1;
  }
  return out;
}

std::uint64_t kv_bytes_for_case(const KvConfig& config, const BenchCase& bench_case,
                                std::size_t prefill_chunk) {
  const std::size_t kept = bench_case.is_prefill ? bench_case.prompt : bench_case.depth;
  std::uint64_t prefilled = 0;  // pages of one sequence
  std::uint64_t added = 0;      // by one fork
  for (const KvLayerSpec& layer : config.layers) {
    const std::size_t page_size = layer.layout.page_size;
    // While a chunk is in flight its oldest token still needs its whole window.
    const std::size_t span =
        layer.window == 0 ? kept : std::min(kept, layer.window + prefill_chunk + page_size);
    prefilled += pages_for(span, page_size);
    // The fork shares whole pages; its first token goes to a copy of the last one unless that is
    // full.
    if (!bench_case.is_prefill) {
      added += pages_for(kept + bench_case.generate, page_size) - kept / page_size;
    }
  }
  const std::uint64_t once = bench_case.shared ? prefilled : 0;
  const auto each = checked_mul<std::uint64_t>(prefilled + added - once, bench_case.batch);
  const auto bytes = each ? checked_mul<std::uint64_t>(once + *each, kv_page_bytes(config)) : each;
  return bytes.value_or(std::numeric_limits<std::uint64_t>::max());
}

Result<EngineOptions> options_for_cases(EngineOptions options, const ModelSpec& spec,
                                        const std::vector<BenchCase>& cases,
                                        std::uint64_t available) {
  const KvConfig config = spec.kv_config(options.kv_type, options.page_size, 0);
  QUIRE_RETURN_IF_ERROR(check_kv_config(config));
  std::uint64_t most = 0;
  for (const BenchCase& bench_case : cases) {
    options.context = std::max(options.context, bench_case.context());
    const std::uint64_t bytes = kv_bytes_for_case(config, bench_case, options.prefill_chunk);
    most = std::max(most, bytes);
    if (options.kv_memory != 0 && bytes > options.kv_memory) {
      return fail(ErrorCode::kOutOfMemory,
                  "{} needs {} of KV memory, the budget is {} "
                  "(see --kv-memory)",
                  bench_case.name(), format_byte_size(bytes), format_byte_size(options.kv_memory));
    }
    if (bytes > available) {
      return fail(ErrorCode::kOutOfMemory, "{} needs {} of KV memory, {} are available",
                  bench_case.name(), format_byte_size(bytes), format_byte_size(available));
    }
  }
  if (options.kv_memory == 0) {
    // A cache has at least one page of every layer.
    options.kv_memory = std::max<std::uint64_t>(most, config.layers.size() * kv_page_bytes(config));
  }
  return options;
}

}  // namespace quire
