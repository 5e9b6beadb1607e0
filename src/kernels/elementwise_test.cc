#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <functional>

#include "kernels/kernels_testing.h"

namespace quire {
namespace {

using testing::Floats;
using testing::on_every_tier;
using testing::random_floats;
using testing::same_bits;

constexpr std::size_t kLengths[] = {1, 2, 15, 16, 17, 31, 33, 64, 100, 576, 641};

TEST(RmsNorm, MatchesDouble) {
  for (const std::size_t n : kLengths) {
    const Floats x = random_floats(n, 4, 3);
    const Floats weight = random_floats(n, 5);
    for (const bool weighted : {false, true}) {
      const Floats y = on_every_tier([&](const Kernels& table) {
        Floats out(n);
        table.rms_norm(x.data(), weighted ? weight.data() : nullptr, 1e-5f, n, out.data());
        Floats in_place = x;
        table.rms_norm(in_place.data(), weighted ? weight.data() : nullptr, 1e-5f, n,
                       in_place.data());
        EXPECT_TRUE(testing::same_bits(out, in_place));
        return out;
      });
      double squares = 0;
      for (const float v : x) squares += double{v} * double{v};
      const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
      for (std::size_t i = 0; i < n; ++i) {
        const double expected = x[i] * factor * (weighted ? double{weight[i]} : 1.0);
        ASSERT_NEAR(y[i], expected, 1e-6 * std::fabs(expected)) << n << " " << i;
      }
    }
  }
}

TEST(RmsNorm, SquaresThatOverflowAreNotARowOfZeros) {
  for (const float bad : {1e20f, -1e30f, INFINITY, std::nanf("")}) {
    for (const Kernels* table : available_kernels()) {
      Floats x = random_floats(100, 4);
      x[70] = bad;
      table->rms_norm(x.data(), nullptr, 1e-5f, x.size(), x.data());
      for (const float v : x) EXPECT_TRUE(std::isnan(v)) << table->name << " " << bad;
    }
  }
}

TEST(Rope, RotatesPairsOfBothStyles) {
  for (const std::size_t head_dim : {2, 64, 80, 100, 256}) {
    for (const std::size_t rope_dim : {head_dim, head_dim / 4 * 2}) {
      const std::size_t n_heads = 3;
      const Floats x = random_floats(n_heads * head_dim, 6);
      Floats cos(rope_dim / 2);
      Floats sin(rope_dim / 2);
      for (std::size_t i = 0; i < rope_dim / 2; ++i) {
        const double angle = 0.37 * static_cast<double>(i + 1);
        cos[i] = static_cast<float>(std::cos(angle));
        sin[i] = static_cast<float>(std::sin(angle));
      }
      for (const RopeStyle style : {RopeStyle::kAdjacent, RopeStyle::kHalves}) {
        const Floats y = on_every_tier([&](const Kernels& table) {
          Floats out = x;
          table.rope(out.data(), n_heads, head_dim, rope_dim, style, cos.data(), sin.data());
          return out;
        });
        for (std::size_t h = 0; h < n_heads; ++h) {
          const std::size_t base = h * head_dim;
          for (std::size_t i = 0; i < rope_dim / 2; ++i) {
            const bool adjacent = style == RopeStyle::kAdjacent;
            const std::size_t a = base + (adjacent ? 2 * i : i);
            const std::size_t b = base + (adjacent ? 2 * i + 1 : i + rope_dim / 2);
            ASSERT_NEAR(y[a], double{x[a]} * cos[i] - double{x[b]} * sin[i], 1e-6);
            ASSERT_NEAR(y[b], double{x[b]} * cos[i] + double{x[a]} * sin[i], 1e-6);
          }
          for (std::size_t i = rope_dim; i < head_dim; ++i) ASSERT_EQ(y[base + i], x[base + i]);
        }
      }
    }
  }
}

/// Values over the whole range where something happens, and far outside.
Floats sweep(float limit) {
  Floats x;
  for (float v = -limit; v <= limit; v += limit / 5000) x.push_back(v);
  for (float v = 1e-30f; v < 1; v *= 3) x.insert(x.end(), {v, -v});
  x.insert(x.end(), {0.0f, -0.0f, 1e4f, -1e4f, 3e38f, -3e38f});
  return x;
}

struct Activation {
  const char* name;
  void (*Kernels::*kernel)(const float*, const float*, float*, std::size_t);
  double (*oracle)(double);
};

double silu(double x) { return x / (1 + std::exp(-x)); }
double gelu_tanh(double x) {
  return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(Activations, MatchDouble) {
  for (const Activation& a : {Activation{"silu", &Kernels::silu_mul, silu},
                              Activation{"gelu", &Kernels::gelu_tanh_mul, gelu_tanh}}) {
    const Floats gate = sweep(20);
    const Floats up = random_floats(gate.size(), 7);
    const Floats y = on_every_tier([&](const Kernels& table) {
      Floats out(gate.size());
      (table.*a.kernel)(gate.data(), up.data(), out.data(), out.size());
      Floats in_place = gate;
      (table.*a.kernel)(in_place.data(), up.data(), in_place.data(), out.size());
      EXPECT_TRUE(same_bits(in_place, out)) << table.name;
      return out;
    });
    for (std::size_t i = 0; i < gate.size(); ++i) {
      // e^t is good to 2e-7 relative for the rounded t; gelu's t itself rounds relative to |t|.
      const double g = gate[i];
      const double expected = a.oracle(g) * up[i];
      const double relative =
          a.oracle == silu ? 6e-7 : 6e-7 + 4e-7 * std::min(88.0, std::fabs(g * g * g));
      ASSERT_NEAR(y[i], expected, relative * std::fabs(expected) + 1e-30) << a.name << " at " << g;
    }
  }
}

TEST(Softcap, InfinityIsNotACappedNumber) {
  for (const Kernels* table : available_kernels()) {
    Floats x = {INFINITY, -INFINITY, std::nanf("")};
    table->softcap(30, x.data(), x.size());
    for (const float v : x) EXPECT_TRUE(std::isnan(v)) << table->name;
  }
}

TEST(Softcap, MatchesDouble) {
  for (const float cap : {1.0f, 30.0f, 50.0f}) {
    const Floats x = sweep(12 * cap);
    const Floats y = on_every_tier([&](const Kernels& table) {
      Floats out = x;
      table.softcap(cap, out.data(), out.size());
      return out;
    });
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = cap * std::tanh(double{x[i]} / cap);
      ASSERT_NEAR(y[i], expected, 4e-7 * std::fabs(expected) + 1e-37) << "at " << x[i];
    }
  }
}

TEST(AddAndScale, AreOneRoundedOperation) {
  for (const std::size_t n : kLengths) {
    const Floats x = random_floats(n, 8);
    const Floats y = random_floats(n, 9);
    const Floats sum = on_every_tier([&](const Kernels& table) {
      Floats out = y;
      table.add(x.data(), out.data(), n);
      return out;
    });
    const Floats scaled = on_every_tier([&](const Kernels& table) {
      Floats out = y;
      table.scale(0.3f, out.data(), n);
      return out;
    });
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(sum[i], y[i] + x[i]);
      ASSERT_EQ(scaled[i], y[i] * 0.3f);
    }
  }
}

}  // namespace
}  // namespace quire
