#include "brigade/optim/adagrad.h"

#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>

#include "brigade/base/error.h"
#include "brigade/optim/testing/update_rule_harness.h"

namespace brigade::optim {
namespace {

class AdagradSteps : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(AdagradSteps, EqualsTorchStepByStep) {
  const double tolerance = GetParam() == at::kDouble ? 1e-14 : 2e-6;
  for (const Adagrad& options : {Adagrad{}, Adagrad{.learning_rate = 0.1,
                                            .learning_rate_decay = 0.05,
                                            .weight_decay = 0.2,
                                            .initial_accumulator_value = 0.1,
                                            .epsilon = 1e-7}}) {
    UpdateRuleHarness ours(options.rule(), at::rand({37}, GetParam()) - 0.5);
    at::Tensor theirs = ours.parameter.clone().set_requires_grad(true);
    torch::optim::Adagrad optimizer(
        {theirs}, torch::optim::AdagradOptions(options.learning_rate)
                      .lr_decay(options.learning_rate_decay)
                      .weight_decay(options.weight_decay)
                      .initial_accumulator_value(options.initial_accumulator_value)
                      .eps(options.epsilon));
    for (int step = 0; step < 20; ++step) {
      const at::Tensor gradient = at::rand({37}, GetParam()) - 0.5;
      ours.step(gradient);
      theirs.mutable_grad() = gradient.clone();
      optimizer.step();
      ASSERT_LE(relative_difference(ours.parameter, theirs.detach()), tolerance) << "step " << step;
    }
  }
}

TEST_P(AdagradSteps, BitsDoNotDependOnCuts) {
  EXPECT_TRUE(bits_do_not_depend_on_cuts(Adagrad{.weight_decay = 0.1}.rule(), GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, AdagradSteps, ::testing::Values(at::kFloat, at::kDouble));

TEST(Adagrad, ItsSumsBeginWithTheInitialAccumulatorValue) {
  const auto rule = Adagrad{.initial_accumulator_value = 0.5}.rule();
  ASSERT_EQ(rule->slots().size(), 1u);
  EXPECT_EQ(rule->slots()[0].name, "sum");
  EXPECT_EQ(rule->slots()[0].initial, 0.5);
}

TEST(Adagrad, RefusesValuesOutsideTheirRange) {
  EXPECT_THROW(Adagrad{.learning_rate = -1}.rule(), Error);
  EXPECT_THROW(Adagrad{.learning_rate_decay = -1}.rule(), Error);
  EXPECT_THROW(Adagrad{.weight_decay = -1}.rule(), Error);
  EXPECT_THROW(Adagrad{.initial_accumulator_value = -1}.rule(), Error);
  EXPECT_THROW(Adagrad{.epsilon = -1}.rule(), Error);
  EXPECT_THROW(Adagrad{.epsilon = 0}.rule(), Error) << "0 / 0 without a gradient";
}

}  // namespace
}  // namespace brigade::optim
