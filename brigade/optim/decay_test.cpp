#include "brigade/optim/decay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "brigade/optim/testing/schedules.h"

namespace brigade::optim {
namespace {

using testing::HasSubstr;

TEST(ConstantRate, IsEqualAtEveryStep) {
  const SchedulePtr schedule = ConstantRate{.learning_rate = 0.25}.schedule();
  EXPECT_EQ((*schedule)(0), 0.25);
  EXPECT_EQ((*schedule)(std::numeric_limits<std::int64_t>::max()), 0.25);
}

TEST(StepDecay, DecaysOnceEveryStepSize) {
  const SchedulePtr schedule =
      StepDecay{.initial_learning_rate = 1.0, .step_size = 3, .factor = 0.5}.schedule();
  expect_rates(schedule, {{0, 1.0}, {2, 1.0}, {3, 0.5}, {5, 0.5}, {6, 0.25}});
}

TEST(ExponentialDecay, EqualsKeras) {
  ExponentialDecay decay{.initial_learning_rate = 0.1, .decay_steps = 10, .decay_rate = 0.9};
  expect_rates(decay.schedule(), {{0, 0.10000000149011612},
                                  {1, 0.09895192831754684},
                                  {5, 0.09486832469701767},
                                  {10, 0.08999999612569809},
                                  {25, 0.07684334367513657},
                                  {100, 0.03486783429980278}});
  decay.staircase = true;
  expect_rates(decay.schedule(), {{0, 0.10000000149011612},
                                  {5, 0.10000000149011612},
                                  {10, 0.08999999612569809},
                                  {15, 0.08999999612569809},
                                  {25, 0.08099999278783798},
                                  {100, 0.03486783429980278}});
}

TEST(InverseTimeDecay, EqualsKeras) {
  InverseTimeDecay decay{.initial_learning_rate = 0.1, .decay_steps = 10, .decay_rate = 0.5};
  expect_rates(decay.schedule(), {{0, 0.10000000149011612},
                                  {1, 0.0952381044626236},
                                  {15, 0.05714285746216774},
                                  {100, 0.01666666753590107}});
  decay.staircase = true;
  expect_rates(decay.schedule(), {{5, 0.10000000149011612},
                                  {10, 0.06666667014360428},
                                  {15, 0.06666667014360428},
                                  {25, 0.05000000074505806}});
}

TEST(PolynomialDecay, EqualsKeras) {
  PolynomialDecay decay{
      .initial_learning_rate = 0.1, .decay_steps = 20, .end_learning_rate = 0.01, .power = 0.5};
  expect_rates(decay.schedule(), {{0, 0.10000000149011612},
                                  {1, 0.0977211520075798},
                                  {10, 0.07363960891962051},
                                  {20, 0.009999999776482582},
                                  {100, 0.009999999776482582}});
  decay.power = 2;
  expect_rates(decay.schedule(), {{1, 0.09122499823570251}, {15, 0.015625}});
}

TEST(PolynomialDecay, RestartsInCyclesAsKeras) {
  const PolynomialDecay decay{.initial_learning_rate = 0.1,
                              .decay_steps = 10,
                              .end_learning_rate = 0.01,
                              .power = 2,
                              .cycle = true};
  expect_rates(decay.schedule(), {{0, 0.10000000149011612},
                                  {1, 0.08289999514818192},
                                  {10, 0.009999999776482582},
                                  {15, 0.015625},
                                  {20, 0.009999999776482582},
                                  {25, 0.012500000186264515},
                                  {100, 0.009999999776482582}});
}

TEST(PiecewiseConstantDecay, HasTheOldValueAtTheBoundaryAsKeras) {
  const PiecewiseConstantDecay decay{.boundaries = {5, 20}, .values = {1.0, 0.5, 0.25}};
  expect_rates(decay.schedule(),
               {{0, 1.0}, {5, 1.0}, {6, 0.5}, {20, 0.5}, {21, 0.25}, {100, 0.25}});
  expect_rates(PiecewiseConstantDecay{.values = {0.5}}.schedule(), {{0, 0.5}, {7, 0.5}});
}

TEST(Decay, RefusesInvalidFieldsByName) {
  EXPECT_THAT(refusal([] { ConstantRate{.learning_rate = -1}.schedule(); }),
              HasSubstr("Schedule constant: learning_rate is -1"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(refusal([&] { ConstantRate{.learning_rate = nan}.schedule(); }), HasSubstr("nan"));
  EXPECT_THAT(refusal([] { ExponentialDecay{.decay_rate = 0.5}.schedule(); }),
              HasSubstr("decay_steps is 0 and must be at least 1"));
  EXPECT_THAT(refusal([] { StepDecay{.initial_learning_rate = 1}.schedule(); }),
              HasSubstr("step_size"));
  EXPECT_THAT(refusal([] { PolynomialDecay{.decay_steps = 2, .power = 0}.schedule(); }),
              HasSubstr("power"));
  EXPECT_THAT(refusal([] { InverseTimeDecay{.decay_steps = 1, .decay_rate = -2}.schedule(); }),
              HasSubstr("decay_rate"));
  EXPECT_THAT(
      refusal([] { PiecewiseConstantDecay{.boundaries = {1}, .values = {1.0}}.schedule(); }),
      HasSubstr("one more than that of boundaries, 2"));
  EXPECT_THAT(refusal([] {
                PiecewiseConstantDecay{.boundaries = {3, 3}, .values = {1, 2, 3}}.schedule();
              }),
              HasSubstr("boundaries is 3, 3 and must be ascending"));
}

TEST(Decay, RefusesNegativeSteps) {
  const SchedulePtr schedule = ConstantRate{.learning_rate = 1}.schedule();
  EXPECT_THAT(refusal([&] { (*schedule)(-1); }), HasSubstr("the step is -1"));
}

}  // namespace
}  // namespace brigade::optim
