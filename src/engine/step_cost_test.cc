#include "engine/step_cost.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(StepCost, IsAGuessUntilStepsWereTaken) {
  const StepCost cost(0.25);
  EXPECT_DOUBLE_EQ(cost.relative(1), 1);
  EXPECT_DOUBLE_EQ(cost.relative(2), 1.25);
  EXPECT_DOUBLE_EQ(cost.relative(9), 3);
}

TEST(StepCost, IsWhatStepsTookAndInBetweenALine) {
  StepCost cost(0.25);
  cost.observe(9, 8);
  EXPECT_DOUBLE_EQ(cost.relative(9), 3);  // beside what?
  cost.observe(1, 2);
  cost.observe(3, 3);
  EXPECT_DOUBLE_EQ(cost.relative(1), 1);
  EXPECT_DOUBLE_EQ(cost.relative(2), 1.25);
  EXPECT_DOUBLE_EQ(cost.relative(3), 1.5);
  EXPECT_DOUBLE_EQ(cost.relative(6), 2.75);
  EXPECT_DOUBLE_EQ(cost.relative(9), 4);
  EXPECT_DOUBLE_EQ(cost.relative(13), 5);  // past what is known, each costs a quarter again
  cost.observe(5, 0);                      // a clock that stood still says nothing
  cost.observe(0, 1);
  EXPECT_DOUBLE_EQ(cost.relative(5), 1.5 + 2.5 / 3);
}

TEST(StepCost, BelievesFasterStepsSooner) {
  StepCost cost(0.25);
  cost.observe(1, 1);
  cost.observe(4, 2);
  cost.observe(4, 4);
  EXPECT_DOUBLE_EQ(cost.relative(4), 2.2);
  cost.observe(4, 1.2);
  EXPECT_DOUBLE_EQ(cost.relative(4), 1.7);
}

TEST(StepCost, ForgetsWhatIsNotTriedAgain) {
  StepCost cost(0.25);
  cost.observe(1, 1);
  cost.observe(4, 100);  // disturbed
  for (int i = 0; i < 128; ++i) cost.observe(2, 1.1);
  EXPECT_DOUBLE_EQ(cost.relative(4), 100);
  cost.observe(2, 1.1);
  EXPECT_NEAR(cost.relative(4), 1.6, 1e-9);
  EXPECT_NEAR(cost.relative(2), 1.1, 1e-9);  // still beside the one step of one token
}

}  // namespace
}  // namespace quire
