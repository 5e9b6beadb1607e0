#pragma once
// Counter-based random numbers: draw i of seed s is a pure function of (s, i), the same on every
// machine, so a sequence can be resumed or forked at any draw.

#include <array>
#include <cstdint>

namespace quire {

/// Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// Draw `index` of `seed`, uniform in [0, 1) with 53 random bits.
constexpr double uniform_draw(std::uint64_t seed, std::uint64_t index) {
  const auto bits =
      philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), 0, 0},
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  const std::uint64_t word = (std::uint64_t{bits[1]} << 32) | bits[0];
  return static_cast<double>(word >> 11) * 0x1p-53;
}

}  // namespace quire
