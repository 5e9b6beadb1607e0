#include "cli/roofline.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/stopwatch.h"
#include "base/thread_pool.h"
#include "engine/available_memory.h"
#include "kernels/kernels.h"

namespace quire {
namespace {

constexpr std::size_t kLeastMemory = std::size_t{256} << 20;
constexpr std::size_t kReadStep = 128;          // bytes that read_all takes at a time
constexpr std::size_t kCacheReads = 64u << 20;  // bytes of one sample of a thread
constexpr std::size_t kDotRounds = 100'000;     // of one sample of a thread: some milliseconds
constexpr std::size_t kFmaColumns = 256;        // a panel and its inputs stay in the first cache
constexpr std::size_t kFmaTokens = 16;
constexpr std::size_t kFmaRepeats = 2'000;
constexpr std::size_t kLeastSamples = 3;
constexpr std::size_t kMemoryParts = 8;
constexpr double kFigures = 5;

std::size_t default_memory_bytes() {
  const long last_cache = ::sysconf(_SC_LEVEL3_CACHE_SIZE);  // 0 or -1 where it is not known
  const auto known = static_cast<std::size_t>(std::max(last_cache, 0L));
  return std::min<std::uint64_t>(std::max(kLeastMemory, 4 * known), available_memory() / 2);
}

/// Every byte of [data, data + bytes), combined so that no read can be left out. Eight vectors of
/// the smallest size that every 64-bit CPU has: enough reads in flight for memory and the larger
/// caches.
std::uint64_t read_all(const std::byte* data, std::size_t bytes) {
  using Vector [[gnu::vector_size(16), gnu::may_alias]] = std::uint64_t;
  constexpr std::size_t kVectors = kReadStep / sizeof(Vector);
  Vector all[kVectors] = {};
  const auto* at = reinterpret_cast<const Vector*>(data);
  const auto* const end = reinterpret_cast<const Vector*>(data + bytes);
  for (; at < end; at += kVectors) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kVectors; ++i) all[i] |= at[i];
  }
  for (std::size_t i = 1; i < kVectors; ++i) all[0] |= all[i];
  return all[0][0] | all[0][1];
}

/// Lets the compiler believe that somebody looks at the value.
template <typename T>
void keep(T& value) {
  asm volatile("" : : "r"(&value) : "memory");
}

using Worker = ThreadPool::Worker;

/// Takes samples of one figure after the other until each has had its time. Samples are short (some
/// milliseconds): on a machine that others use too, some of them are undisturbed.
class Meter {
 public:
  Meter(ThreadPool& pool, double seconds, const std::function<bool(double)>& keep_going)
      : pool_(pool), seconds_(seconds), keep_going_(keep_going) {}

  /// The best of several samples in units per second. `body` gets the number of its sample and
  /// does `units` on all threads together.
  double best(double units, const std::function<void(Worker&, std::size_t)>& body) {
    double fastest = 0;
    const Stopwatch total;
    for (std::size_t n = 0; n < kLeastSamples || total.seconds() < seconds_; ++n) {
      const double spent = std::min(total.seconds() / seconds_, 1.0);
      if (stopped_ || (keep_going_ && !keep_going_((figures_ + spent) / kFigures))) {
        stopped_ = true;
        break;
      }
      double seconds = 0;
      pool_.run([&](Worker& worker) {
        worker.barrier();  // waking up is not measured
        const Stopwatch watch;
        body(worker, n);
        worker.barrier();
        if (worker.index() == 0) seconds = watch.seconds();
      });
      fastest = std::max(fastest, units / std::max(seconds, 1e-9));
    }
    figures_ += 1;
    return fastest;
  }

 private:
  ThreadPool& pool_;
  double seconds_;
  const std::function<bool(double)>& keep_going_;
  double figures_ = 0;  // done
  bool stopped_ = false;
};

double measure_memory(Meter& meter, ThreadPool& pool, const MappedMemory& memory) {
  // Memory that was never written is one page of zeros, which every cache holds.
  pool.run([&](Worker& worker) {
    const Range bytes = worker.share(memory.size());
    std::memset(memory.data() + bytes.begin, 1, bytes.end - bytes.begin);
  });
  // One part per sample: when its turn comes again, the caches hold the others.
  const std::size_t steps = memory.size() / kReadStep / kMemoryParts;
  const std::size_t part_bytes = steps * kReadStep;
  return meter.best(static_cast<double>(part_bytes), [&](Worker& worker, std::size_t sample) {
    const Range mine = worker.share(steps);
    const std::size_t first = sample % kMemoryParts * part_bytes + mine.begin * kReadStep;
    std::uint64_t all = read_all(memory.data() + first, (mine.end - mine.begin) * kReadStep);
    keep(all);
  });
}

double measure_cache(Meter& meter, std::size_t n_threads, const MappedMemory& memory,
                     std::size_t cache_bytes) {
  // Each thread reads a part of its own again and again.
  const std::size_t bytes =
      std::min(cache_bytes, memory.size() / n_threads) / kReadStep * kReadStep;
  const std::size_t repeats = std::max<std::size_t>(1, kCacheReads / std::max(bytes, kReadStep));
  return meter.best(static_cast<double>(bytes * repeats * n_threads),
                    [&](Worker& worker, std::size_t) {
                      const std::byte* data = memory.data() + bytes * worker.index();
                      for (std::size_t i = 0; i < repeats; ++i) {
                        std::uint64_t all = read_all(data, bytes);
                        keep(all);
                      }
                    });
}

double measure_int8(Meter& meter, std::size_t n_threads, const Kernels& table) {
  // The scalar tier is a hundred times slower than the others.
  const std::size_t rounds = table.name == "scalar" ? kDotRounds / 100 : kDotRounds;
  const std::size_t macs = rounds * kDotPeakTokens * kPanelRows * 8;
  return meter.best(static_cast<double>(macs * n_threads), [&](Worker&, std::size_t) {
    alignas(64) const std::array<std::byte, 128> weights = {};
    alignas(64) const std::array<std::int8_t, kDotPeakTokens * 8> x = {};
    alignas(64) std::array<std::int32_t, kDotPeakTokens * kPanelRows> out;
    table.dot_peak(weights.data(), x.data(), rounds, out.data());
    keep(out);
  });
}

double measure_bf16(Meter& meter, std::size_t n_threads, const Kernels& table) {
  const std::size_t macs = kDotRounds * kDotPeakTokens * kPanelRows * 4;
  return meter.best(static_cast<double>(macs * n_threads), [&](Worker&, std::size_t) {
    alignas(64) const std::array<std::uint16_t, 64> weights = {};
    alignas(64) const std::array<std::uint16_t, kDotPeakTokens * 4> x = {};
    alignas(64) std::array<float, kDotPeakTokens * kPanelRows> out;
    table.pair_peak(weights.data(), x.data(), kDotRounds, out.data());
    keep(out);
  });
}

Result<double> measure_f32(Meter& meter, ThreadPool& pool, const Kernels& table) {
  const std::vector<float> values(kPanelRows * kFmaColumns, 0.25f);
  QUIRE_ASSIGN_OR_RETURN(
      const PackedMatrix panel,
      PackedMatrix::pack(TensorType::kF32, reinterpret_cast<const std::byte*>(values.data()),
                         kPanelRows, kFmaColumns, Precision::kReference, pool));
  const std::vector<float> x(kFmaTokens * kFmaColumns, 0.5f);
  const ActivationView view = {.f32 = x.data(), .f32_stride = kFmaColumns, .int8 = {}};
  const std::size_t repeats = table.name == "scalar" ? kFmaRepeats / 20 : kFmaRepeats;
  const std::size_t macs = repeats * kFmaTokens * kFmaColumns * kPanelRows;
  return meter.best(static_cast<double>(macs * pool.size()), [&](Worker&, std::size_t) {
    alignas(64) std::array<float, kFmaTokens * kPanelRows> y;
    for (std::size_t i = 0; i < repeats; ++i) {
      table.linear(panel, view, {0, 1}, {0, kFmaTokens}, y.data(), kPanelRows);
      keep(y);
    }
  });
}

}  // namespace

Result<Roofline> measure_roofline(const RooflineSettings& settings,
                                  const std::function<bool(double)>& keep_going) {
  QUIRE_ASSIGN_OR_RETURN(const Kernels* table, requested_kernels());
  QUIRE_ASSIGN_OR_RETURN(const auto pool, ThreadPool::start(settings.n_threads));
  QUIRE_ASSIGN_OR_RETURN(
      const MappedMemory memory,
      MappedMemory::allocate(settings.memory_bytes == 0 ? default_memory_bytes()
                                                        : settings.memory_bytes));

  Meter meter(*pool, settings.seconds, keep_going);
  Roofline out;
  out.n_threads = settings.n_threads;
  out.memory_bytes = measure_memory(meter, *pool, memory);
  out.cache_bytes = measure_cache(meter, settings.n_threads, memory, settings.cache_bytes);
  out.int8_macs = measure_int8(meter, settings.n_threads, *table);
  QUIRE_ASSIGN_OR_RETURN(out.f32_macs, measure_f32(meter, *pool, *table));
  if (table->pair_peak != nullptr) {
    out.bf16_macs = measure_bf16(meter, settings.n_threads, *table);
  }
  return out;
}

}  // namespace quire
