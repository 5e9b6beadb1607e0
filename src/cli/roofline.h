#pragma once
// What the machine can do at best: bytes read and multiply-adds per second. No model is needed.

#include <cstddef>
#include <functional>

#include "base/result.h"

namespace quire {

struct Roofline {
  std::size_t n_threads = 0;
  // Per second, by all threads together.
  double memory_bytes = 0;  // read from memory: more than any cache holds
  double cache_bytes = 0;   // read from a thread's own cache
  double int8_macs = 0;     // by the instruction set in use
  double f32_macs = 0;
  double bf16_macs = 0;  // of pairs; 0 if the instruction set has none
};

struct RooflineSettings {
  std::size_t n_threads = 1;
  std::size_t memory_bytes = 0;          // 0: four times the last cache, at least 256 MiB
  std::size_t cache_bytes = 256 * 1024;  // of each thread
  double seconds = 0.3;                  // spent on each figure; the best sample counts
};

/// `keep_going` (optional) is asked between samples with the fraction done; false gives up early,
/// with whatever is missing left 0. Fails if memory, threads or QUIRE_ISA are refused.
Result<Roofline> measure_roofline(const RooflineSettings& settings,
                                  const std::function<bool(double done)>& keep_going = {});

}  // namespace quire
