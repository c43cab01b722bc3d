#include "brigade/optim/warm_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/optim/cosine_decay.h"
#include "brigade/optim/decay.h"
#include "brigade/optim/testing/schedules.h"

namespace brigade::optim {
namespace {

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
