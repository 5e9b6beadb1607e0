#include "paged_attention.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/stopwatch.h"
#include "kernels/kernels.h"

namespace quire {
namespace {

constexpr std::size_t kPoolBytes = std::size_t{1} << 30;
// Twice what the longest sequence takes: as scattered, but near enough for few entries of a TLB.
constexpr std::size_t kSmallPoolBytes = std::size_t{16} << 20;
constexpr std::size_t kEvictBytes = std::size_t{64} << 20;  // more than the caches near a core hold
constexpr std::size_t kHeadDim = 64;
constexpr std::size_t kGroup = 3;
constexpr std::size_t kKvHeads = 3;  // SmolLM2's shapes

/// With huge pages where the system has them, as KV arenas and weights are allocated.
MappedMemory allocate(std::size_t bytes) {
  auto allocated = MappedMemory::allocate(bytes);
  if (!allocated) {
    std::fprintf(stderr, "%s\n", allocated.error().message.c_str());
    std::exit(1);
  }
  return std::move(*allocated);
}

const MappedMemory& pool() {
  static const MappedMemory memory = allocate(kPoolBytes);
  return memory;
}

struct Case {
  KvType type;
  std::size_t length, n_queries, page_size;
  std::size_t pool_bytes;  // that the pages are scattered over
  /// Pages side by side before the next jump: 1 for any page anywhere; the engine takes the pages
  /// of a layer that one chunk of a prompt fills together.
  std::size_t run_pages;
};

/// Two copies of one sequence: adjacent pages in address order, and pages, or runs of them,
/// anywhere in the pool.
class Sequences {
 public:
  Sequences(const Kernels& table, const KvLayout& layout, const Case& c) {
    const std::size_t n_pages = c.length / layout.page_size;
    const std::size_t n_places = c.pool_bytes / layout.page_bytes() / c.run_pages;
    const std::size_t n_runs = n_pages / c.run_pages;
    // The contiguous copy takes the first places, the other one a random choice of the rest.
    std::vector<std::size_t> places(n_places - n_runs);
    std::iota(places.begin(), places.end(), n_runs);
    std::mt19937_64 random(1);
    std::shuffle(places.begin(), places.end(), random);
    std::normal_distribution<float> normal;
    std::vector<float> k(kKvHeads * kHeadDim);
    std::vector<float> v(kKvHeads * kHeadDim);
    for (std::size_t t = 0; t < c.length; ++t) {
      for (float& x : k) x = normal(random);
      for (float& x : v) x = normal(random);
      const std::size_t page = t / layout.page_size;
      const std::size_t slot = t % layout.page_size;
      const std::size_t far_page = places[page / c.run_pages] * c.run_pages + page % c.run_pages;
      std::byte* const near = pool().data() + page * layout.page_bytes();
      std::byte* const far = pool().data() + far_page * layout.page_bytes();
      table.kv_write(layout, near, slot, k.data(), v.data());
      table.kv_write(layout, far, slot, k.data(), v.data());
      if (slot == 0) {
        contiguous_.push_back(near);
        paged_.push_back(far);
      }
    }
  }

  const std::vector<const std::byte*>& contiguous() const { return contiguous_; }
  const std::vector<const std::byte*>& paged() const { return paged_; }

 private:
  std::vector<const std::byte*> contiguous_;
  std::vector<const std::byte*> paged_;
};

/// All KV heads of one layer, for queries at the end of the sequence.
class Attention {
 public:
  Attention(const Kernels& table, const Case& c)
      : table_(table), length_(c.length), q_(c.n_queries * kKvHeads * kGroup * kHeadDim) {
    std::mt19937_64 random(2);
    std::normal_distribution<float> normal;
    for (float& x : q_) x = normal(random);
    const std::size_t record = attention_record_size(kHeadDim);
    records_.resize(c.n_queries * kGroup * record);
    for (std::size_t t = 0; t < c.n_queries; ++t) {
      queries_.push_back({.q = nullptr,
                          .position = c.length - c.n_queries + t,
                          .records = &records_[t * kGroup * record]});
    }
    task_.group = kGroup;
    task_.record_stride = record;
    task_.scale = 0.125f;
  }

  /// Returns a number that depends on the result, to compare.
  double run(const KvLayout& layout, const std::vector<const std::byte*>& pages) {
    task_.layout = layout;
    task_.pages = pages.data();
    double sum = 0;
    // The heads of one split, which lie in the same pages, one after the other: as the engine does.
    for (std::size_t begin = 0; begin < length_; begin += kAttentionSplit) {
      for (std::size_t head = 0; head < kKvHeads; ++head) {
        task_.kv_head = head;
        for (std::size_t t = 0; t < queries_.size(); ++t)
          queries_[t].q = &q_[(t * kKvHeads + head) * kGroup * kHeadDim];
        for (std::size_t first = 0; first < queries_.size(); first += kMaxQueryTile) {
          task_.queries = &queries_[first];
          task_.n_queries = std::min(kMaxQueryTile, queries_.size() - first);
          table_.attend(task_, {begin, std::min(begin + kAttentionSplit, length_)});
          sum += static_cast<double>(records_[2]);
        }
      }
    }
    return sum;
  }

 private:
  const Kernels& table_;
  std::size_t length_;
  std::vector<float> q_;
  std::vector<float> records_;
  std::vector<AttentionQuery> queries_;
  AttentionTask task_;
};

/// How much of this process lies in huge pages: scattered small pages would each miss the TLB.
double huge_page_mib() {
  std::ifstream smaps("/proc/self/smaps_rollup");
  for (std::string word; smaps >> word;) {
    double kib = 0;
    if (word == "AnonHugePages:" && smaps >> kib) return kib / 1024;
  }
  return 0;
}

/// Between samples something else passes through the caches, as the weights of a model do: in huge
/// pages, too, which leave the other ones' addresses in the TLB.
void evict() {
  static const MappedMemory other = allocate(kEvictBytes);
  for (std::size_t i = 0; i < other.size(); i += 64) other.data()[i] ^= std::byte{1};
  benchmark::ClobberMemory();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void run_case(benchmark::State& state, const Kernels& table, const Case& c) {
  const KvLayout layout = {c.type, c.type, kKvHeads, kHeadDim,
                           static_cast<std::uint32_t>(c.page_size)};
  const Sequences sequences(table, layout, c);
  Attention attention(table, c);
  if (attention.run(layout, sequences.paged()) != attention.run(layout, sequences.contiguous())) {
    state.SkipWithError("paged and contiguous attention differ");
    return;
  }
  std::vector<double> paged;
  std::vector<double> contiguous;
  std::vector<double> ratios;
  const auto timed = [&](const std::vector<const std::byte*>& pages) {
    evict();
    const Stopwatch watch;
    benchmark::DoNotOptimize(attention.run(layout, pages));
    return watch.seconds();
  };
  bool paged_first = false;
  for (auto _ : state) {
    paged_first = !paged_first;
    if (paged_first) paged.push_back(timed(sequences.paged()));
    contiguous.push_back(timed(sequences.contiguous()));
    if (!paged_first) paged.push_back(timed(sequences.paged()));
    ratios.push_back(paged.back() / contiguous.back());
    state.SetIterationTime(paged.back() + contiguous.back());
  }
  state.counters["huge_MiB"] = huge_page_mib();
  state.counters["paged_us"] = 1e6 * median(paged);
  state.counters["contiguous_us"] = 1e6 * median(contiguous);
  state.counters["ratio"] = median(paged) / median(contiguous);
  state.counters["ratio_of_pairs"] = median(ratios);
  state.counters["ratio_of_best"] = *std::min_element(paged.begin(), paged.end()) /
                                    *std::min_element(contiguous.begin(), contiguous.end());
}

void register_case(const Kernels& table, const Case& c) {
  const std::string name = "paged/" + std::string(table.name) + "/" +
                           std::string(kv_type_name(c.type)) + "/n" + std::to_string(c.length) +
                           "/q" + std::to_string(c.n_queries) + "/page" +
                           std::to_string(c.page_size) + "/run" + std::to_string(c.run_pages) +
                           "/pool" + std::to_string(c.pool_bytes >> 20) + "MiB";
  benchmark::RegisterBenchmark(name.c_str(), [&table, c](benchmark::State& state) {
    run_case(state, table, c);
  })->UseManualTime();
}

}  // namespace

void register_paged_attention() {
  for (const Kernels* table : available_kernels()) {
    for (const KvType type : {KvType::kF16, KvType::kBF16}) {
      for (const std::size_t length : {std::size_t{4096}, std::size_t{8192}}) {
        for (const std::size_t n_queries : {std::size_t{1}, 4 * kMaxQueryTile}) {
          for (const std::size_t page_size : {16, 32, 64, 128}) {
            register_case(*table, {type, length, n_queries, page_size, kPoolBytes, 1});
            register_case(*table, {type, length, n_queries, page_size, kSmallPoolBytes, 1});
            // The engine's chunk of 256 tokens.
            register_case(*table,
                          {type, length, n_queries, page_size, kPoolBytes, 256 / page_size});
          }
        }
      }
    }
  }
}

}  // namespace quire
