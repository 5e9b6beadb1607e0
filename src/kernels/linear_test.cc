#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "kernels/kernels_testing.h"

namespace quire {
namespace {

using testing::Floats;
using testing::on_every_tier;
using testing::random_floats;
using testing::same_bits;

struct TypeCase {
  TensorType type;
  std::vector<std::size_t> f16_fields;  // byte offsets of d (and m or dmin) in a block
};

void PrintTo(const TypeCase& c, std::ostream* out) { *out << tensor_type_info(c.type).name; }

const TypeCase kTypes[] = {
    {TensorType::kF32, {}},        {TensorType::kF16, {}},      {TensorType::kBF16, {}},
    {TensorType::kQ4_0, {0}},      {TensorType::kQ4_1, {0, 2}}, {TensorType::kQ5_0, {0}},
    {TensorType::kQ5_1, {0, 2}},   {TensorType::kQ8_0, {0}},    {TensorType::kIQ4_NL, {0}},
    {TensorType::kQ2_K, {80, 82}}, {TensorType::kQ3_K, {108}},  {TensorType::kQ4_K, {0, 2}},
    {TensorType::kQ5_K, {0, 2}},   {TensorType::kQ6_K, {208}},
};

/// Random blocks of a type, with scales of ordinary size.
std::vector<std::byte> random_weights(const TypeCase& c, std::size_t n, std::uint32_t seed) {
  const TensorTypeInfo& info = tensor_type_info(c.type);
  const std::size_t n_blocks = n / info.block_size;
  std::vector<std::byte> bytes = testing::random_bytes(n_blocks * info.block_bytes, seed);
  const Floats values = random_floats(n, seed + 1);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint16_t half = f32_to_f16(values[i]);
    const std::uint16_t bf16 = f32_to_bf16(values[i]);
    if (c.type == TensorType::kF32) std::memcpy(&bytes[4 * i], &values[i], 4);
    if (c.type == TensorType::kF16) std::memcpy(&bytes[2 * i], &half, 2);
    if (c.type == TensorType::kBF16) std::memcpy(&bytes[2 * i], &bf16, 2);
  }
  for (std::size_t b = 0; b < n_blocks; ++b) {
    for (std::size_t f = 0; f < c.f16_fields.size(); ++f) {
      const std::uint16_t half = f32_to_f16(0.01f + 0.01f * std::fabs(values[2 * b + f]));
      std::memcpy(&bytes[b * info.block_bytes + c.f16_fields[f]], &half, 2);
    }
  }
  return bytes;
}

PackedMatrix pack(const TypeCase& c, const std::vector<std::byte>& bytes, std::size_t n_rows,
                  std::size_t n_cols, Precision precision) {
  ThreadPool pool(2);
  auto packed = PackedMatrix::pack(c.type, bytes.data(), n_rows, n_cols, precision, pool);
  EXPECT_TRUE(packed.has_value());
  return std::move(*packed);
}

/// All of y = W x, in pieces of `tokens_per_call` tokens and `panels_per_call` panels.
Floats multiply(const Kernels& table, const PackedMatrix& w, const Floats& x,
                std::size_t tokens_per_call = 1000, std::size_t panels_per_call = 1000) {
  const std::size_t n_tokens = x.size() / w.n_cols();
  testing::QuantizedRows rows;
  ActivationView view;
  view.f32 = x.data();
  view.f32_stride = w.n_cols();
  if (w.wants_int8()) {
    rows = testing::quantize_rows(table, x, w.n_cols());
    view.int8 = rows.view();
  }
  const std::size_t stride = w.n_rows() + 3;
  Floats y(n_tokens * stride, -77.0f);  // the gap between rows must stay untouched
  for (std::size_t p = 0; p < w.n_panels(); p += panels_per_call) {
    for (std::size_t t = 0; t < n_tokens; t += tokens_per_call) {
      table.linear(w, view, {p, std::min(w.n_panels(), p + panels_per_call)},
                   {t, std::min(n_tokens, t + tokens_per_call)}, y.data(), stride);
    }
  }
  return y;
}

class LinearTest : public ::testing::TestWithParam<TypeCase> {};

INSTANTIATE_TEST_SUITE_P(Types, LinearTest, ::testing::ValuesIn(kTypes), [](const auto& each) {
  return std::string(tensor_type_info(each.param.type).name);
});

// Reference precision: sums of n products in f32 with four chains stay within a few ulp of the sum
// of magnitudes (n / 4 additions per chain, errors growing like their square root).
TEST_P(LinearTest, ReferenceMatchesDequantizedProductInDouble) {
  const std::size_t n_rows = 37;
  const std::size_t n_cols = 512;
  const std::size_t n_tokens = 5;
  const auto bytes = random_weights(GetParam(), n_rows * n_cols, 1);
  Floats weights(n_rows * n_cols);
  dequantize(GetParam().type, bytes.data(), weights.size(), weights.data());
  const PackedMatrix w = pack(GetParam(), bytes, n_rows, n_cols, Precision::kReference);
  EXPECT_FALSE(w.wants_int8());
  const Floats x = random_floats(n_tokens * n_cols, 2);
  const Floats y = on_every_tier([&](const Kernels& table) { return multiply(table, w, x); });
  for (std::size_t t = 0; t < n_tokens; ++t) {
    for (std::size_t r = 0; r < n_rows; ++r) {
      double sum = 0;
      double magnitude = 0;
      for (std::size_t k = 0; k < n_cols; ++k) {
        const double product = double{weights[r * n_cols + k]} * double{x[t * n_cols + k]};
        sum += product;
        magnitude += std::fabs(product);
      }
      ASSERT_NEAR(y[t * (n_rows + 3) + r], sum, 1e-6 * magnitude) << "token " << t << " row " << r;
    }
    for (std::size_t gap = n_rows; gap < n_rows + 3; ++gap) {
      ASSERT_EQ(y[t * (n_rows + 3) + gap], -77.0f);
    }
  }
}

// Fast: the same product with the activations that int8 leaves; only f32 rounding separates them.
TEST_P(LinearTest, FastMatchesProductWithQuantizedActivations) {
  const std::size_t n_rows = 50;
  const std::size_t n_cols = 768;
  const std::size_t n_tokens = 29;
  const auto bytes = random_weights(GetParam(), n_rows * n_cols, 3);
  Floats weights(n_rows * n_cols);
  dequantize(GetParam().type, bytes.data(), weights.size(), weights.data());
  const PackedMatrix w = pack(GetParam(), bytes, n_rows, n_cols, Precision::kFast);
  Floats x = random_floats(n_tokens * n_cols, 4);
  for (std::size_t i = 0; i < x.size(); i += 67) x[i] *= 20;
  std::vector<double> seen(x.begin(), x.end());
  if (w.wants_int8()) {
    // quantize_test.cc holds these to the definition.
    const auto rows = testing::quantize_rows(*available_kernels().front(), x, n_cols);
    std::size_t n_outliers = 0;
    for (std::size_t t = 0; t < n_tokens; ++t) {
      for (std::size_t c = 0; c < n_cols; ++c) {
        seen[t * n_cols + c] = double{rows.scale(t, c / 32)} * rows.level(t, c);
        n_outliers += rows.coarse(t, c) != 0;
      }
    }
    EXPECT_GT(n_outliers, 0u);
    EXPECT_LT(n_outliers, x.size() / 8);
  }
  const Floats y = on_every_tier([&](const Kernels& table) { return multiply(table, w, x); });
  for (std::size_t t = 0; t < n_tokens; ++t) {
    for (std::size_t r = 0; r < n_rows; ++r) {
      double sum = 0;
      double magnitude = 0;
      for (std::size_t k = 0; k < n_cols; ++k) {
        const double product = double{weights[r * n_cols + k]} * seen[t * n_cols + k];
        sum += product;
        magnitude += std::fabs(product);
      }
      ASSERT_NEAR(y[t * (n_rows + 3) + r], sum, 2e-6 * magnitude) << "token " << t << " row " << r;
    }
  }
}

TEST_P(LinearTest, ResultDependsOnNeitherTokenTileNorPanelRange) {
  const std::size_t n_rows = 70;
  const std::size_t n_cols = 256;
  const std::size_t n_tokens = 45;  // enough for panels to be expanded, and a part of a tile
  const auto bytes = random_weights(GetParam(), n_rows * n_cols, 5);
  Floats x = random_floats(n_tokens * n_cols, 6);
  for (std::size_t i = 0; i < x.size(); i += 67) x[i] *= 20;
  for (const Precision precision : {Precision::kFast, Precision::kReference}) {
    const PackedMatrix w = pack(GetParam(), bytes, n_rows, n_cols, precision);
    for (const Kernels* table : testing::tested_kernels()) {
      const Floats whole = multiply(*table, w, x);
      for (const std::size_t tokens : {1, 2, 3, 5, 7, 8, 13, 30}) {
        EXPECT_TRUE(same_bits(whole, multiply(*table, w, x, tokens, 2)))
            << table->name << " in tiles of " << tokens;
      }
    }
  }
}

// The formats of 32 columns, exactly: integers by hand from the dequantized weights, and the f32
// steps the documentation states.
TEST_P(LinearTest, PlainFormatsFollowTheDocumentedArithmeticToTheBit) {
  const TensorTypeInfo& info = tensor_type_info(GetParam().type);
  if (info.block_size != 32) return;  // the other types have their own tests above
  const bool has_min = GetParam().f16_fields.size() == 2;
  const std::size_t n_rows = 19;
  const std::size_t n_cols = 160;
  const auto bytes = random_weights(GetParam(), n_rows * n_cols, 7);
  Floats weights(n_rows * n_cols);
  dequantize(GetParam().type, bytes.data(), weights.size(), weights.data());
  const PackedMatrix w = pack(GetParam(), bytes, n_rows, n_cols, Precision::kFast);
  Floats x = random_floats(n_cols, 8);
  x[40] *= 30;  // three outlier lines of two blocks
  x[66] *= 10;
  x[90] *= 20;
  const auto rows = testing::quantize_rows(*available_kernels().front(), x, n_cols);
  const Floats y = on_every_tier([&](const Kernels& table) { return multiply(table, w, x); });
  for (std::size_t r = 0; r < n_rows; ++r) {
    float expected = 0;
    for (std::size_t b = 0; b < n_cols / 32; ++b) {
      const std::byte* block = &bytes[(r * n_cols / 32 + b) * info.block_bytes];
      std::uint16_t d_bits;
      std::uint16_t m_bits = 0;
      std::memcpy(&d_bits, block, 2);
      if (has_min) std::memcpy(&m_bits, block + 2, 2);
      const float d = f16_to_f32(d_bits);
      const float m = f16_to_f32(m_bits);
      std::int32_t dot = 0;
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < 32; ++i) {
        const float weight = weights[r * n_cols + b * 32 + i];
        const std::int32_t level = rows.level(0, b * 32 + i);
        dot += static_cast<std::int32_t>(std::lround((weight - m) / d)) * level;
        sum += level;
      }
      expected = std::fma(static_cast<float>(dot), d * rows.scale(0, b), expected);
      if (has_min) expected = std::fma(m, rows.scale(0, b) * static_cast<float>(sum), expected);
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(y[r]), std::bit_cast<std::uint32_t>(expected)) << r;
  }
}

// Any number of columns in the float formats, any number of rows and tokens.
TEST(LinearShapes, TiersAgreeOnRandomShapes) {
  const bool held = rc::check([] {
    const TypeCase& c = kTypes[*rc::gen::inRange<std::size_t>(0, std::size(kTypes))];
    const std::size_t block = tensor_type_info(c.type).block_size;
    const std::size_t n_cols = block * *rc::gen::inRange<std::size_t>(1, block == 1 ? 70 : 5);
    const std::size_t n_rows = *rc::gen::inRange<std::size_t>(1, 60);
    const std::size_t n_tokens = *rc::gen::inRange<std::size_t>(1, 50);
    const auto seed = *rc::gen::inRange<std::uint32_t>(0, 1000);
    const auto bytes = random_weights(c, n_rows * n_cols + 2 * block, seed);
    const PackedMatrix w =
        pack(c, bytes, n_rows, n_cols, *rc::gen::element(Precision::kFast, Precision::kReference));
    const Floats x = random_floats(n_tokens * n_cols, seed + 9);
    const Floats expected = multiply(*available_kernels().front(), w, x);
    for (const Kernels* table : testing::tested_kernels()) {
      RC_ASSERT(bool{same_bits(expected, multiply(*table, w, x))});
    }
  });
  EXPECT_TRUE(held);
}

// The extremes of every stored integer against the extremes of the activations: sums that a 16-bit
// accumulator could not hold.
TEST(LinearExtremes, LargestWeightsAndActivationsDoNotSaturate) {
  for (const TypeCase& c : kTypes) {
    const TensorTypeInfo& info = tensor_type_info(c.type);
    if (info.block_size == 1) continue;
    for (const int byte : {0x00, 0x7f, 0x80, 0x81, 0xff}) {
      std::vector<std::byte> bytes(16 * info.block_bytes, static_cast<std::byte>(byte));
      const std::uint16_t one = f32_to_f16(1);
      for (std::size_t r = 0; r < 16; ++r) {
        for (const std::size_t f : c.f16_fields) {
          std::memcpy(&bytes[r * info.block_bytes + f], &one, 2);
        }
      }
      Floats weights(info.block_size);
      dequantize(c.type, bytes.data(), info.block_size, weights.data());
      double sum = 0;
      for (const float weight : weights) sum += double{weight};
      const PackedMatrix w = pack(c, bytes, 16, info.block_size, Precision::kFast);
      for (const float x : {-127.0f, 127.0f}) {
        const Floats input(info.block_size, x);
        const Floats y =
            on_every_tier([&](const Kernels& table) { return multiply(table, w, input); });
        EXPECT_NEAR(y[0], sum * double{x}, 1e-6 * std::fabs(sum * double{x})) << info.name;
        // And two outlier lines as far out as the coarse term reaches, which the levels hold
        // exactly.
        Floats far = input;
        double expected = 0;
        double magnitude = 0;
        for (std::size_t i = 0; i < far.size(); ++i) {
          if (i % 32 < 8) far[i] *= kCoarseSteps;
          expected += double{weights[i]} * double{far[i]};
          magnitude += std::fabs(double{weights[i]} * double{far[i]});
        }
        const Floats z =
            on_every_tier([&](const Kernels& table) { return multiply(table, w, far); });
        EXPECT_NEAR(z[0], expected, 1e-6 * magnitude) << info.name;
      }
    }
  }
}

}  // namespace
}  // namespace quire
