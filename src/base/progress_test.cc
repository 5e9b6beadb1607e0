#include "base/progress.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

struct Screen {
  double now = 0;
  std::string text;

  Progress::Environment environment(bool is_terminal = true, std::size_t columns = 80) {
    return {is_terminal, columns, [this] { return now; },
            [this](std::string_view s) { text += s; }};
  }
};

TEST(Progress, StaysQuietForASecond) {
  Screen screen;
  {
    Progress progress("loading", screen.environment());
    screen.now = 0.9;
    progress.update(0.5);
  }
  EXPECT_EQ(screen.text, "");
}

TEST(Progress, DrawsAfterASecondAndWipesItself) {
  Screen screen;
  {
    Progress progress("loading", screen.environment());
    screen.now = 1.5;
    progress.update(0.5, "2/4");
    EXPECT_EQ(screen.text, "\r\x1b[Kloading [############............]  50%  2/4");
    progress.update(0.6);  // too soon after the last
    screen.now = 1.7;
    screen.text.clear();
    progress.update(1);
    EXPECT_EQ(screen.text, "\r\x1b[Kloading [########################] 100%");
    screen.text.clear();
    progress.finish();
    EXPECT_EQ(screen.text, "\r\x1b[K");
  }
  EXPECT_EQ(screen.text, "\r\x1b[K");
}

TEST(Progress, NeverDrawsWithoutATerminal) {
  Screen screen;
  Progress progress("loading", screen.environment(false));
  screen.now = 10;
  progress.update(0.5);
  EXPECT_EQ(screen.text, "");
}

TEST(Progress, FitsTheTerminal) {
  Screen screen;
  Progress progress("loading", screen.environment(true, 10));
  screen.now = 2;
  progress.update(0.5);
  EXPECT_EQ(screen.text, "\r\x1b[Kloading [");
}

}  // namespace
}  // namespace quire
