#pragma once
// Checks for a programmer's mistake: they stay on in every build and abort with the reason.

#include <string_view>

namespace quire {

[[noreturn]] void check_failed(std::string_view condition, const char* file, int line);

}  // namespace quire

#define QUIRE_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::quire::check_failed(#condition, __FILE__, __LINE__))
