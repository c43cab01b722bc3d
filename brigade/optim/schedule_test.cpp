#include "brigade/optim/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/io/state_json.h"
#include "brigade/optim/cosine_decay.h"
#include "brigade/optim/decay.h"
#include "brigade/optim/testing/schedules.h"
#include "brigade/optim/warm_up.h"

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

}  // namespace
}  // namespace brigade::optim
