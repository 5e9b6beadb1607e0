// One thread of the numeric kernels on the shapes of SmolLM2-135M and Gemma 3 270M, for every tier
// this CPU runs: GB/s of packed weights for one token, GMAC/s for many.
//   kernels_bench --benchmark_filter='gemv/avx512/.*'

#include <benchmark/benchmark.h>

#include <cstdio>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "paged_attention.h"

namespace quire {
namespace {

constexpr TensorType kTypes[] = {
    TensorType::kQ4_1, TensorType::kQ8_0, TensorType::kQ5_0, TensorType::kQ4_0, TensorType::kQ5_1,
    TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kQ6_K, TensorType::kQ3_K, TensorType::kQ2_K,
    TensorType::kF16,  TensorType::kBF16, TensorType::kF32};

struct Shape {
  const char* name;
  std::size_t n_rows, n_cols;
};
constexpr Shape kLayerShapes[] = {{"smollm2-up-1536x576", 1536, 576},
                                  {"smollm2-down-576x1536", 576, 1536},
                                  {"gemma-up-2048x640", 2048, 640},
                                  {"gemma-down-640x2048", 640, 2048}};
constexpr std::size_t kStreamedBytes = 100'000'000;  // beyond every cache, as a whole model is

PackedMatrix random_matrix(TensorType type, std::size_t n_rows, std::size_t n_cols) {
  const TensorTypeInfo& info = tensor_type_info(type);
  // 0x2c2c is 0.065 in f16 and ordinary in the other formats: no special values, no subnormals.
  const std::vector<std::byte> data(n_rows * n_cols / info.block_size * info.block_bytes,
                                    std::byte{0x2c});
  ThreadPool pool(available_cpus());
  auto packed = PackedMatrix::pack(type, data.data(), n_rows, n_cols, Precision::kFast, pool);
  if (!packed) {
    std::fprintf(stderr, "%s\n", packed.error().message.c_str());
    std::exit(1);
  }
  return std::move(*packed);
}

/// Repacking at load, on all CPUs.
void register_pack(TensorType type) {
  const std::string name = "pack/" + std::string(tensor_type_info(type).name);
  benchmark::RegisterBenchmark(name.c_str(), [type](benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(random_matrix(type, 16384, 1536).bytes());
    const double weights = 16384.0 * 1536 * static_cast<double>(state.iterations());
    state.counters["weights/s"] = benchmark::Counter(weights, benchmark::Counter::kIsRate);
  })->UseRealTime();
}

struct Activations {
  std::vector<float> x;
  Int8Buffer int8;
  ActivationView view;

  Activations(const Kernels& table, std::size_t n_tokens, std::size_t n_cols)
      : x(n_tokens * n_cols) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) / 97 - 0.5f;
    // As in a real model: an outlier in every fifth block, at columns that tokens share.
    for (std::size_t i = 0; i < x.size(); i += 32) {
      if (i % n_cols / 32 % 5 == 3) x[i + i % n_cols / 64 % 32] *= 10;
    }
    int8.resize(n_tokens, n_cols);
    for (std::size_t t = 0; n_cols % 32 == 0 && t < n_tokens; ++t) {
      table.quantize_row(&x[t * n_cols], t, int8.view());
    }
    view = {.f32 = x.data(), .f32_stride = n_cols, .int8 = int8.view()};
  }
};

void run_linear(benchmark::State& state, const Kernels& table, const PackedMatrix& w,
                std::size_t n_tokens) {
  const Activations x(table, n_tokens, w.n_cols());
  std::vector<float> y(n_tokens * w.n_rows());
  for (auto _ : state) {
    table.linear(w, x.view, {0, w.n_panels()}, {0, n_tokens}, y.data(), w.n_rows());
    benchmark::ClobberMemory();
  }
  const auto iterations = static_cast<double>(state.iterations());
  const double macs = static_cast<double>(w.n_rows() * w.n_cols() * n_tokens) * iterations;
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(w.bytes()) * iterations / 1e9,
                                              benchmark::Counter::kIsRate);
  state.counters["GMAC/s"] = benchmark::Counter(macs / 1e9, benchmark::Counter::kIsRate);
}

void register_linear(const Kernels& table, TensorType type) {
  const std::string suffix =
      std::string(table.name) + "/" + std::string(tensor_type_info(type).name) + "/";
  for (const std::size_t n_cols : {std::size_t{576}, std::size_t{1536}, std::size_t{2048}}) {
    if (n_cols % tensor_type_info(type).block_size != 0) continue;
    const auto bench = [&table, type, n_cols](benchmark::State& state) {
      const std::size_t n_rows =
          kStreamedBytes / (random_matrix(type, 16, n_cols).bytes() / 16) / 16 * 16;
      run_linear(state, table, random_matrix(type, n_rows, n_cols), 1);
    };
    benchmark::RegisterBenchmark(("gemv/" + suffix + std::to_string(n_cols)).c_str(), bench);
  }
  for (const Shape& shape : kLayerShapes) {
    if (shape.n_cols % tensor_type_info(type).block_size != 0) continue;
    for (const std::size_t n_tokens : {1, 4, 16, 64, 256}) {
      const auto bench = [&table, type, &shape, n_tokens](benchmark::State& state) {
        run_linear(state, table, random_matrix(type, shape.n_rows, shape.n_cols), n_tokens);
      };
      const std::string name = "gemm/" + suffix + shape.name + "/m" + std::to_string(n_tokens);
      benchmark::RegisterBenchmark(name.c_str(), bench);
    }
  }
}

/// One row of activations to int8; about one block in six has an outlier.
void register_quantize(const Kernels& table) {
  for (const std::size_t n_cols : {std::size_t{576}, std::size_t{1536}}) {
    const std::string name = "quantize/" + std::string(table.name) + "/" + std::to_string(n_cols);
    benchmark::RegisterBenchmark(name.c_str(), [&table, n_cols](benchmark::State& state) {
      const Activations x(table, kTokenTile, n_cols);
      std::size_t token = 0;
      for (auto _ : state) {
        token = (token + 1) % kTokenTile;
        table.quantize_row(&x.x[token * n_cols], token, x.view.int8);
        benchmark::ClobberMemory();
      }
      const double blocks = static_cast<double>(n_cols / kActivationBlock * state.iterations());
      state.counters["blocks/s"] = benchmark::Counter(blocks, benchmark::Counter::kIsRate);
    });
  }
}

/// Decode (one token) or prefill (8 tokens at a time) of one KV head over a filled cache.
void run_attention(benchmark::State& state, const Kernels& table, KvType type, std::size_t head_dim,
                   std::size_t group, std::size_t n_q, std::size_t length) {
  const KvLayout layout = {type, type, 1, static_cast<std::uint32_t>(head_dim), 16};
  const std::size_t n_pages = length / 16;
  std::vector<std::byte> arena(n_pages * layout.page_bytes());
  std::vector<const std::byte*> pages(n_pages);
  const std::vector<float> row(head_dim, 0.1f);
  for (std::size_t t = 0; t < length; ++t) {
    std::byte* page = arena.data() + t / 16 * layout.page_bytes();
    pages[t / 16] = page;
    table.kv_write(layout, page, t % 16, row.data(), row.data());
  }
  const std::vector<float> q(n_q * group * head_dim, 0.1f);
  AttentionTask task;
  task.layout = layout;
  task.pages = pages.data();
  task.group = group;
  const std::size_t size = attention_record_size(head_dim);
  std::vector<float> records(n_q * group * size);
  std::vector<AttentionQuery> queries;
  for (std::size_t t = 0; t < n_q; ++t) {
    queries.push_back({.q = &q[t * group * head_dim],
                       .position = length - n_q + t,
                       .records = &records[t * group * size]});
  }
  task.queries = queries.data();
  task.n_queries = n_q;
  task.record_stride = size;
  for (auto _ : state) {
    for (std::size_t begin = 0; begin < length; begin += kAttentionSplit) {
      table.attend(task, {begin, begin + kAttentionSplit});
    }
    benchmark::ClobberMemory();
  }
  const auto iterations = static_cast<double>(state.iterations());
  const double macs = 2.0 * static_cast<double>(length * head_dim * group * n_q) * iterations;
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(arena.size()) * iterations / 1e9,
                                              benchmark::Counter::kIsRate);
  state.counters["GMAC/s"] = benchmark::Counter(macs / 1e9, benchmark::Counter::kIsRate);
}

void register_attention(const Kernels& table) {
  for (const KvType type : {KvType::kF16, KvType::kBF16, KvType::kF32}) {
    for (const auto& [head_dim, group] : {std::pair<std::size_t, std::size_t>{64, 3}, {256, 4}}) {
      for (const std::size_t n_q : {std::size_t{1}, kMaxQueryTile}) {
        const std::string name = "attention/" + std::string(table.name) + "/" +
                                 std::string(kv_type_name(type)) + "/d" + std::to_string(head_dim) +
                                 "g" + std::to_string(group) + "/q" + std::to_string(n_q);
        benchmark::RegisterBenchmark(name.c_str(), [=, &table](benchmark::State& state) {
          run_attention(state, table, type, head_dim, group, n_q, 8192);
        });
      }
    }
  }
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  for (const quire::TensorType type : quire::kTypes) quire::register_pack(type);
  for (const quire::Kernels* table : quire::available_kernels()) {
    for (const quire::TensorType type : quire::kTypes) quire::register_linear(*table, type);
    quire::register_quantize(*table);
    quire::register_attention(*table);
  }
  quire::register_paged_attention();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
