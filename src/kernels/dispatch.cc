#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/tiers.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 6> kTierNames = {"scalar", "avx2",       "avx2vnni",
                                                        "avx512", "avx512bf16", "neon"};

struct Tiers {
  std::array<const Kernels*, kTierNames.size()> tables{};  // slowest first
  std::size_t count = 0;
};

Tiers find_tiers() {
  Tiers tiers;
  tiers.tables[tiers.count++] = &kScalarKernels;
#if defined(__x86_64__)
  // These tests include the operating system's support for the wider registers (XGETBV).
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  if (avx2) tiers.tables[tiers.count++] = &kAvx2Kernels;
  if (avx2 && __builtin_cpu_supports("avxvnni")) tiers.tables[tiers.count++] = &kAvx2VnniKernels;
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni")) {
    tiers.tables[tiers.count++] = &kAvx512Kernels;
    if (__builtin_cpu_supports("avx512bf16")) tiers.tables[tiers.count++] = &kAvx512Bf16Kernels;
  }
#elif defined(__aarch64__) && defined(__linux__)
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) tiers.tables[tiers.count++] = &kNeonKernels;
#endif
  return tiers;
}

}  // namespace

std::span<const Kernels* const> available_kernels() {
  static const Tiers tiers = find_tiers();
  return {tiers.tables.data(), tiers.count};
}

Result<const Kernels*> select_kernels(std::string_view isa) {
  const auto tiers = available_kernels();
  if (isa.empty()) return tiers.back();
  std::string names;
  for (const Kernels* table : tiers) {
    if (table->name == isa) return table;
    names += names.empty() ? "" : ", ";
    names += table->name;
  }
  const bool known = std::find(kTierNames.begin(), kTierNames.end(), isa) != kTierNames.end();
  return fail(known ? ErrorCode::kUnsupported : ErrorCode::kInvalidArgument,
              "instruction set \"{}\" {}; this CPU has: {}", isa,
              known ? "is not available here" : "is unknown", names);
}

Result<const Kernels*> requested_kernels() {
  const char* isa = std::getenv("QUIRE_ISA");
  auto selected = select_kernels(isa == nullptr ? "" : isa);
  if (!selected) return fail(selected.error().code, "QUIRE_ISA: {}", selected.error().message);
  return selected;
}

const Kernels& kernels() {
  static const Result<const Kernels*> chosen = requested_kernels();
  QUIRE_CHECK(chosen.has_value() && "QUIRE_ISA names an instruction set this CPU does not have");
  return **chosen;
}

}  // namespace quire
