// What the prefix cache costs the step thread: finding and adopting a prefix, publishing while
// decoding, reclaiming. SmolLM2-135M has 30 layers; Gemma 3 270M 18, 15 of them with windows.

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "kv/kv_manager.h"

namespace quire {
namespace {

/// Small pages: what is measured is bookkeeping, not memory.
KvManager make(bool windows, std::size_t n_pages) {
  KvConfig config;
  const KvLayout layout{.k_type = KvType::kF16,
                        .v_type = KvType::kF16,
                        .n_kv_heads = 1,
                        .head_dim = 2,
                        .page_size = 16};
  for (std::size_t i = 0; i < (windows ? 18u : 30u); ++i)
    config.layers.push_back({layout, windows && i % 6 != 5 ? std::size_t{512} : 0});
  config.budget_bytes = n_pages * layout.page_bytes();
  return std::move(*KvManager::create(config));
}

std::vector<TokenId> text_of(std::size_t n, TokenId text) {
  std::vector<TokenId> tokens(n, 7);
  for (std::size_t i = 0; i < n; i += 16) tokens[i] = text;
  return tokens;
}

void append(KvManager& kv, SequenceId sequence, std::span<const TokenId> tokens) {
  const SlotRequest request{sequence, tokens};
  kv.reserve({&request, 1}).value().commit();
}

void BM_Adopt(benchmark::State& state) {
  KvManager kv = make(state.range(0) == 1, 100000);
  const auto text = text_of(2001, 1);
  const SequenceId first = kv.add_sequence("a");
  append(kv, first, text);
  for (auto _ : state) {
    const SequenceId sequence = kv.add_sequence("a");
    benchmark::DoNotOptimize(kv.adopt_prefix(sequence, text, 2000));
    state.PauseTiming();
    kv.release(sequence);
    state.ResumeTiming();
  }
}
BENCHMARK(BM_Adopt)->Arg(0)->Arg(1)->ArgName("windows")->Unit(benchmark::kMicrosecond);

void BM_Match(benchmark::State& state) {
  KvManager kv = make(state.range(0) == 1, 100000);
  const auto text = text_of(2001, 1);
  append(kv, kv.add_sequence("a"), text);
  for (auto _ : state) benchmark::DoNotOptimize(kv.match_prefix("a", text, 2000).n_tokens);
}
BENCHMARK(BM_Match)->Arg(0)->Arg(1)->ArgName("windows")->Unit(benchmark::kMicrosecond);

void BM_Release(benchmark::State& state) {
  KvManager kv = make(state.range(0) == 1, 100000);
  const auto text = text_of(2001, 1);
  append(kv, kv.add_sequence("a"), text);
  for (auto _ : state) {
    state.PauseTiming();
    const SequenceId sequence = kv.add_sequence("a");
    kv.adopt_prefix(sequence, text, 2000);
    state.ResumeTiming();
    kv.release(sequence);
  }
}
BENCHMARK(BM_Release)->Arg(0)->Arg(1)->ArgName("windows")->Unit(benchmark::kMicrosecond);

/// One token of one sequence, reserved and committed; published every 16.
void BM_DecodeStep(benchmark::State& state) {
  const bool shares = state.range(1) == 1;
  KvManager kv = make(state.range(0) == 1, 200000);
  const TokenId token = 5;
  SequenceId sequence = shares ? kv.add_sequence("a") : kv.add_sequence();
  TokenId text = 0;
  for (auto _ : state) {
    if (kv.length(sequence) == 4096) {
      state.PauseTiming();
      kv.release(sequence);
      sequence = shares ? kv.add_sequence("a") : kv.add_sequence();
      append(kv, sequence, text_of(16, ++text));
      state.ResumeTiming();
    }
    append(kv, sequence, {&token, 1});
  }
}
BENCHMARK(BM_DecodeStep)->ArgsProduct({{0, 1}, {0, 1}})->ArgNames({"windows", "shares"});

/// One block's worth of pages with the pool full of other blocks.
void BM_Reclaim(benchmark::State& state) {
  const auto n_pages = static_cast<std::size_t>(state.range(0));
  KvManager kv = make(false, n_pages);
  const auto fill = [&](TokenId text) {
    const SequenceId sequence = kv.add_sequence("a");
    append(kv, sequence, text_of(16, text));
    kv.release(sequence);
  };
  TokenId text = 0;
  while (kv.stats().pages_free >= 30) fill(++text);
  for (auto _ : state) fill(++text);  // evicts one, publishes one
}
BENCHMARK(BM_Reclaim)->Arg(3000)->Arg(30000)->Arg(300000)->ArgName("pages");

}  // namespace
}  // namespace quire

BENCHMARK_MAIN();
