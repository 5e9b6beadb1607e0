#pragma once
// exp and log whose bits do not depend on the C library: only IEEE additions, multiplications and
// divisions, which the build keeps as written (-ffp-contract=off). Good to about 2 ulp.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace quire {

inline constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 33 bits: k * kLn2High is exact
inline constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

inline constexpr double kRound = 0x1.8p52;  // adding and subtracting it rounds to an integer

/// e^x for x <= 0. Below -708, where a double would be subnormal, 0. There are no branches and no
/// conversions, so that a compiler may compute several at once (GCC with -fno-trapping-math).
inline double portable_exp(double given) {
  const bool vanishes = !(given > -708.0);
  const double x = vanishes ? -708.0 : given;
  // x = k ln 2 + r with |r| <= ln 2 / 2; the Taylor series to r^13 leaves less than 5e-18.
  constexpr std::array<double, 14> kInverseFactorial = {1.0,
                                                        1.0,
                                                        1.0 / 2,
                                                        1.0 / 6,
                                                        1.0 / 24,
                                                        1.0 / 120,
                                                        1.0 / 720,
                                                        1.0 / 5040,
                                                        1.0 / 40320,
                                                        1.0 / 362880,
                                                        1.0 / 3628800,
                                                        1.0 / 39916800,
                                                        1.0 / 479001600,
                                                        1.0 / 6227020800};
  const double rounded = x * 0x1.71547652b82fep0 + kRound;
  const double k = rounded - kRound;
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = kInverseFactorial[13];
#pragma GCC unroll 13
  for (std::size_t i = 13; i-- > 0;) sum = sum * r + kInverseFactorial[i];
  // The last bits of `rounded` are those of k as an integer.
  const std::uint64_t exponent =
      std::bit_cast<std::uint64_t>(rounded) - std::bit_cast<std::uint64_t>(kRound) + 1023;
  return sum * (vanishes ? 0.0 : std::bit_cast<double>(exponent << 52));
}

/// ln x for finite, normal x > 0.
inline double portable_log(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<std::int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | (std::uint64_t{1023} << 52));
  if (m > 1.4142135623730951) {  // bring m into [0.707, 1.414]
    m *= 0.5;
    ++exponent;
  }
  // ln m = 2 artanh(s) = 2 (s + s^3/3 + …) with |s| <= 0.172: 12 terms leave less than 1e-19.
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double sum = 0.0;
  for (int n = 23; n >= 3; n -= 2) sum = (sum + 1.0 / n) * s2;
  const auto e = static_cast<double>(exponent);
  return e * kLn2High + (2.0 * s + (2.0 * s * sum + e * kLn2Low));
}

}  // namespace quire
