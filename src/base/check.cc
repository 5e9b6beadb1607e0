#include "base/check.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace quire {

void check_failed(std::string_view condition, const char* file, int line) {
  fmt::print(stderr, "{}:{}: check failed: {}\n", file, line, condition);
  std::abort();
}

}  // namespace quire
