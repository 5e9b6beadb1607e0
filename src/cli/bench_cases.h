#pragma once
// What `quire bench` measures, as numbers: which cases there are and the memory they take.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace quire {

/// A prompt computed from an empty cache, or some tokens decoded one step at a time by a batch of
/// sequences of which each holds `depth` tokens already.
struct BenchCase {
  bool is_prefill = false;
  std::size_t prompt = 0;  // prefill only
  std::size_t depth = 0;   // the rest decode only
  std::size_t batch = 1;
  std::size_t generate = 0;  // steps
  bool shared = false;       // the sequences hold the same `depth` tokens, in the same pages

  std::size_t tokens() const { return is_prefill ? prompt : batch * generate; }  // that count
  std::size_t n_prefilled() const { return shared ? 1 : batch; }  // sequences, decode only
  std::size_t context() const { return is_prefill ? prompt : depth + generate; }
  /// "prefill 512", "decode 64 at depth 512, batch 4", "decode 64 at depth 512, shared by 4"
  std::string name() const;
  friend bool operator==(const BenchCase&, const BenchCase&) = default;
};

struct BenchPlan {
  std::vector<std::size_t> prompts;
  std::vector<std::size_t> depths;
  std::vector<std::size_t> batches;
  std::size_t generate = 64;
  bool shared = false;

  /// Prefills first, then every depth with every batch.
  std::vector<BenchCase> cases() const;
};

/// "512", "0,512,4096", or "none" for an empty list: each number within [min, max] and only once.
Result<std::vector<std::size_t>> parse_counts(std::string_view text, std::size_t min,
                                              std::size_t max);

/// Bytes of KV memory that a case takes, as it is measured: each of its sequences is prefilled in
/// chunks, kept, and continued in a fork that shares what it can; shared ones are forks of one. The
/// largest number if it does not fit 64 bits.
std::uint64_t kv_bytes_for_case(const KvConfig& config, const BenchCase& bench_case,
                                std::size_t prefill_chunk);

/// Sets context and KV memory to what the cases take, or refuses if the memory given (or, by
/// default, the `available` bytes) is less: the message names the case and both numbers.
Result<EngineOptions> options_for_cases(EngineOptions options, const ModelSpec& spec,
                                        const std::vector<BenchCase>& cases,
                                        std::uint64_t available);

}  // namespace quire
