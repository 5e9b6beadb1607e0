#include "base/bytes.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace quire {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr double kKi = 1024.0;
constexpr std::array kUnits = {
    Unit{"", 1},
    Unit{"B", 1},
    Unit{"k", kKi},
    Unit{"K", kKi},
    Unit{"KiB", kKi},
    Unit{"kB", 1e3},
    Unit{"m", kKi* kKi},
    Unit{"M", kKi* kKi},
    Unit{"MiB", kKi* kKi},
    Unit{"MB", 1e6},
    Unit{"g", kKi* kKi* kKi},
    Unit{"G", kKi* kKi* kKi},
    Unit{"GiB", kKi* kKi* kKi},
    Unit{"GB", 1e9},
    Unit{"T", kKi* kKi* kKi* kKi},
    Unit{"TiB", kKi* kKi* kKi* kKi},
    Unit{"TB", 1e12},
};

}  // namespace

Result<std::uint64_t> parse_byte_size(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, ec] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const auto bad = [&] {
    return fail(ErrorCode::kInvalidArgument,
                "'{}' is not a size: write a number and a unit, such as 512MiB or 2GiB", text);
  };
  if (ec != std::errc() || !std::isfinite(number) || number < 0) return bad();
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const Unit& candidate : kUnits) {
    if (candidate.name != unit) continue;
    const double bytes = number * candidate.factor;
    if (bytes >= static_cast<double>(std::numeric_limits<std::int64_t>::max())) return bad();
    return static_cast<std::uint64_t>(bytes);
  }
  return bad();
}

std::string format_byte_size(std::uint64_t bytes) {
  static constexpr std::array kNames = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kNames[unit]);
}

}  // namespace quire
