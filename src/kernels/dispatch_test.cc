#include <gtest/gtest.h>

#include "kernels/kernels.h"

namespace quire {
namespace {

TEST(SelectKernels, EmptyNameIsTheBestTierAndEveryTierHasItsName) {
  const auto tiers = available_kernels();
  ASSERT_FALSE(tiers.empty());
  EXPECT_EQ(tiers.front()->name, "scalar");
  EXPECT_EQ(select_kernels("").value(), tiers.back());
  for (const Kernels* tier : tiers) EXPECT_EQ(select_kernels(tier->name).value(), tier);
}

TEST(SelectKernels, UnknownNameIsRefusedWithTheChoices) {
  for (const char* name : {"avx3", "AVX2", "scalar ", "neon2"}) {
    const auto chosen = select_kernels(name);
    ASSERT_FALSE(chosen.has_value());
    EXPECT_EQ(chosen.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(chosen.error().message.find(name), std::string::npos);
    EXPECT_NE(chosen.error().message.find("scalar"), std::string::npos);
  }
}

TEST(SelectKernels, KnownTierThisCpuLacksIsUnsupported) {
  const auto tiers = available_kernels();
  for (const char* name : {"avx2", "avx2vnni", "avx512", "avx512bf16", "neon"}) {
    bool here = false;
    for (const Kernels* tier : tiers) here = here || tier->name == name;
    const auto chosen = select_kernels(name);
    EXPECT_EQ(chosen.has_value(), here);
    if (!here) {
      EXPECT_EQ(chosen.error().code, ErrorCode::kUnsupported);
    }
  }
}

#if defined(__aarch64__)
// Linux lets a program read what the CPU says of itself (the register is emulated), which is not
// where dispatch looks.
TEST(SelectKernels, NeonIsThereWhereTheCpuHasDotProducts) {
  std::uint64_t features;  // ID_AA64ISAR0_EL1: bits 44 to 47 count the dot product instructions
  asm("mrs %0, ID_AA64ISAR0_EL1" : "=r"(features));
  EXPECT_EQ(available_kernels().back()->name, (features >> 44 & 15) != 0 ? "neon" : "scalar");
}
#endif

TEST(KvTypeNames, RoundTrip) {
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16}) {
    EXPECT_EQ(parse_kv_type(kv_type_name(type)), type);
  }
  EXPECT_FALSE(parse_kv_type("f8").has_value());
  EXPECT_FALSE(parse_kv_type("").has_value());
}

}  // namespace
}  // namespace quire
