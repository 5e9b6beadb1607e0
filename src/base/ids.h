#pragma once
// Ids that cannot be mixed up: a SequenceId is not a PageId although both are numbers.

#include <compare>
#include <cstdint>
#include <functional>

namespace quire {

template <typename Tag, typename Rep = std::uint32_t>
struct StrongId {
  Rep value{};

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep v) : value(v) {}
  friend constexpr auto operator<=>(StrongId, StrongId) = default;
};

using TokenId = std::int32_t;  // the field's own type for a token; plain, since it is data

}  // namespace quire

template <typename Tag, typename Rep>
struct std::hash<quire::StrongId<Tag, Rep>> {
  std::size_t operator()(quire::StrongId<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};
