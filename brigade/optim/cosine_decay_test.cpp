#include "brigade/optim/cosine_decay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/optim/testing/schedules.h"

namespace brigade::optim {
namespace {

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

}  // namespace
}  // namespace brigade::optim
