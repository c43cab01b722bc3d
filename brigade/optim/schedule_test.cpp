#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "brigade/io/state_json.h"
#include "brigade/optim/schedule.h"
#include "brigade/optim/testing/schedules.h"

namespace brigade::optim {
namespace {

using testing::HasSubstr;

std::vector<SchedulePtr> one_of_each() {
  const SchedulePtr constant = ConstantRate{.learning_rate = 1}.schedule();
  return {
      constant,
      StepDecay{.initial_learning_rate = 1, .step_size = 3}.schedule(),
      ExponentialDecay{
          .initial_learning_rate = 1, .decay_steps = 3, .decay_rate = 0.5, .staircase = true}
          .schedule(),
      InverseTimeDecay{.initial_learning_rate = 1, .decay_steps = 3, .decay_rate = 0.5}.schedule(),
      PolynomialDecay{.initial_learning_rate = 1, .decay_steps = 3, .power = 2, .cycle = true}
          .schedule(),
      PiecewiseConstantDecay{.boundaries = {2, 4}, .values = {1, 0.5, 0.1}}.schedule(),
      CosineDecay{.initial_learning_rate = 1, .decay_steps = 3, .alpha = 0.1}.schedule(),
      CosineDecayRestarts{.initial_learning_rate = 1, .first_decay_steps = 3, .m_mul = 0.5}
          .schedule(),
      WarmUp{.initial_learning_rate = 0.1, .warmup_steps = 3, .then = constant}.schedule(),
      scaled_with_global_batch(constant, 32, 96)};
}

TEST(Schedule, CanBeRestoredFromItsConfigurationAsJson) {
  for (const SchedulePtr& schedule : one_of_each()) {
    const io::StateTree config = io::from_json(io::to_json(schedule->config()).json);
    EXPECT_EQ(config.as_string("name"), schedule->name());
    const SchedulePtr again = make_schedule(config);
    EXPECT_EQ(again->config(), schedule->config()) << schedule->name();
    for (std::int64_t step = 0; step < 12; ++step)
      EXPECT_EQ((*again)(step), (*schedule)(step)) << schedule->name() << " at step " << step;
  }
}

TEST(Schedule, HasAReadableConfiguration) {
  const SchedulePtr schedule =
      ExponentialDecay{.initial_learning_rate = 0.5, .decay_steps = 3, .decay_rate = 0.25}
          .schedule();
  io::StateTree expected;
  expected["name"] = "exponential_decay";
  expected["initial_learning_rate"] = 0.5;
  expected["decay_steps"] = 3;
  expected["decay_rate"] = 0.25;
  expected["staircase"] = false;
  EXPECT_EQ(schedule->config(), expected);
}

TEST(Schedule, AnUnknownNameIsRefusedWithASuggestion) {
  io::StateTree config;
  config["name"] = "cosine_decai";
  EXPECT_THAT(refusal([&] { make_schedule(config); }), HasSubstr("did you mean 'cosine_decay'?"));
}

TEST(Schedule, AMissingOrInvalidFieldIsRefused) {
  io::StateTree config =
      CosineDecay{.initial_learning_rate = 1, .decay_steps = 3}.schedule()->config();
  config["decay_steps"] = 0;
  EXPECT_THAT(refusal([&] { make_schedule(config); }), HasSubstr("decay_steps"));
  io::StateTree bare;
  bare["name"] = "cosine_decay";
  EXPECT_THAT(refusal([&] { make_schedule(bare); }), HasSubstr("initial_learning_rate"));
}

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

using testing::HasSubstr;

TEST(CosineDecay, EqualsKeras) {
  const CosineDecay decay{.initial_learning_rate = 0.1, .decay_steps = 20, .alpha = 0.1};
  expect_rates(decay.schedule(), {{0, 0.10000000149011612},
                                  {1, 0.09944597631692886},
                                  {5, 0.08681981265544891},
                                  {10, 0.05499999597668648},
                                  {15, 0.023180196061730385},
                                  {20, 0.010000000707805157},
                                  {100, 0.010000000707805157}});
}

TEST(CosineDecayRestarts, EqualsKeras) {
  CosineDecayRestarts decay{.initial_learning_rate = 0.1,
                            .first_decay_steps = 10,
                            .t_mul = 2,
                            .m_mul = 0.5,
                            .alpha = 0.1};
  expect_rates(decay.schedule(), {{0, 0.10000000149011612},
                                  {1, 0.09779754281044006},
                                  {5, 0.05499999597668648},
                                  {10, 0.055000003427267075},
                                  {15, 0.04840990528464317},
                                  {25, 0.016590097919106483},
                                  {30, 0.032499998807907104},
                                  {100, 0.017777595669031143}});
  decay = {.initial_learning_rate = 0.1, .first_decay_steps = 10, .t_mul = 1, .m_mul = 0.9};
  expect_rates(decay.schedule(), {{1, 0.0975528284907341},
                                  {5, 0.04999999701976776},
                                  {10, 0.08999999612569809},
                                  {15, 0.044999998062849045},
                                  {30, 0.07289998978376389},
                                  {100, 0.03486783429980278}});
  decay = {.initial_learning_rate = 0.1, .first_decay_steps = 10, .t_mul = 1.5};
  expect_rates(decay.schedule(), {{15, 0.07500000298023224},
                                  {20, 0.02499999664723873},
                                  {25, 0.10000000149011612},
                                  {30, 0.08830221742391586},
                                  {100, 0.06980399042367935}});
}

TEST(CosineDecayRestarts, RestartsExactlyOnItsStep) {
  const SchedulePtr schedule =
      CosineDecayRestarts{.initial_learning_rate = 1, .first_decay_steps = 7, .t_mul = 3}
          .schedule();
  std::int64_t start = 0;
  for (std::int64_t length = 7; start < 1'000'000; length *= 3) {
    EXPECT_EQ((*schedule)(start), 1.0) << start;
    EXPECT_LT((*schedule)(start + 1), 1.0) << start;
    start += length;
  }
}

TEST(CosineDecay, RefusesInvalidFieldsByName) {
  EXPECT_THAT(refusal([] { CosineDecay{.initial_learning_rate = 1}.schedule(); }),
              HasSubstr("Schedule cosine_decay: decay_steps is 0"));
  EXPECT_THAT(refusal([] { CosineDecay{.decay_steps = 1, .alpha = 1.5}.schedule(); }),
              HasSubstr("alpha is 1.5 and must be in [0, 1]"));
  EXPECT_THAT(refusal([] { CosineDecayRestarts{.first_decay_steps = 1, .t_mul = 0.5}.schedule(); }),
              HasSubstr("t_mul"));
  EXPECT_THAT(refusal([] { CosineDecayRestarts{.first_decay_steps = 1, .m_mul = -1}.schedule(); }),
              HasSubstr("m_mul"));
}

using testing::HasSubstr;

SchedulePtr constant(double rate) {
  return ConstantRate{.learning_rate = rate}.schedule();
}

TEST(WarmUp, WithACosineDecayEqualsKeras) {
  const CosineDecay decay{.initial_learning_rate = 0.1, .decay_steps = 20, .alpha = 0.1};
  const WarmUp warm_up{.initial_learning_rate = 0.02, .warmup_steps = 10, .then = decay.schedule()};
  expect_rates(warm_up.schedule(), {{0, 0.019999999552965164},
                                    {1, 0.02800000086426735},
                                    {5, 0.05999999865889549},
                                    {10, 0.10000000149011612},
                                    {15, 0.08681981265544891},
                                    {20, 0.05499999597668648},
                                    {30, 0.010000000707805157},
                                    {100, 0.010000000707805157}});
}

TEST(ScaledWithGlobalBatch, IsLinearInTheBatch) {
  const SchedulePtr decay =
      StepDecay{.initial_learning_rate = 0.1, .step_size = 10, .factor = 0.5}.schedule();
  const SchedulePtr scaled = scaled_with_global_batch(decay, 256, 8192);
  EXPECT_DOUBLE_EQ((*scaled)(0), 3.2);
  EXPECT_DOUBLE_EQ((*scaled)(10), 1.6);
  EXPECT_DOUBLE_EQ((*scaled_with_global_batch(decay, 256, 64))(0), 0.025);
  const SchedulePtr warm =
      WarmUp{.initial_learning_rate = 0.1, .warmup_steps = 5, .then = scaled}.schedule();
  EXPECT_DOUBLE_EQ((*warm)(0), 0.1);
  EXPECT_DOUBLE_EQ((*warm)(5), 3.2);
}

TEST(WarmUp, RefusesInvalidFieldsByName) {
  EXPECT_THAT(refusal([] { WarmUp{.warmup_steps = 1}.schedule(); }),
              HasSubstr("Schedule warm_up: then is missing"));
  EXPECT_THAT(refusal([] { WarmUp{.then = constant(1)}.schedule(); }), HasSubstr("warmup_steps"));
  EXPECT_THAT(refusal([] { scaled_with_global_batch(nullptr, 1, 1); }), HasSubstr("missing"));
  EXPECT_THAT(refusal([] { scaled_with_global_batch(constant(1), 0, 1); }),
              HasSubstr("base_batch is 0"));
  EXPECT_THAT(refusal([] { scaled_with_global_batch(constant(1), 1, -1); }),
              HasSubstr("global_batch is -1"));
}

}  // namespace

}  // namespace brigade::optim
