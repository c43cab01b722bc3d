#include "brigade/optim/sgd.h"

#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include "brigade/base/error.h"
#include "brigade/optim/testing/update_rule_harness.h"

namespace brigade::optim {
namespace {

class SgdSteps : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(SgdSteps, EqualsTorchStepByStep) {
  const double tolerance = GetParam() == at::kDouble ? 1e-14 : 1e-6;
  for (const Sgd& options :
       {Sgd{}, Sgd{.learning_rate = 0.1, .weight_decay = 0.2},
        Sgd{.learning_rate = 0.1, .momentum = 0.9},
        Sgd{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true}}) {
    UpdateRuleHarness ours(options.rule(), at::rand({37}, GetParam()) - 0.5);
    at::Tensor theirs = ours.parameter.clone().set_requires_grad(true);
    torch::optim::SGD optimizer({theirs}, torch::optim::SGDOptions(options.learning_rate)
                                              .momentum(options.momentum)
                                              .weight_decay(options.weight_decay)
                                              .nesterov(options.nesterov));
    for (int step = 0; step < 20; ++step) {
      const at::Tensor gradient = at::rand({37}, GetParam()) - 0.5;
      ours.step(gradient);
      theirs.mutable_grad() = gradient.clone();
      optimizer.step();
      ASSERT_LE(relative_difference(ours.parameter, theirs.detach()), tolerance)
          << "step " << step << " with momentum " << options.momentum;
    }
  }
}

TEST_P(SgdSteps, BitsDoNotDependOnCuts) {
  EXPECT_TRUE(bits_do_not_depend_on_cuts(Sgd{.weight_decay = 0.1}.rule(), GetParam()));
  EXPECT_TRUE(bits_do_not_depend_on_cuts(Sgd{.momentum = 0.9}.rule(), GetParam()));
  EXPECT_TRUE(
      bits_do_not_depend_on_cuts(Sgd{.momentum = 0.9, .nesterov = true}.rule(), GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, SgdSteps, ::testing::Values(at::kFloat, at::kDouble));

TEST(Sgd, KeepsASlotOnlyForMomentum) {
  EXPECT_TRUE(Sgd{}.rule()->slots().empty());
  ASSERT_EQ(Sgd{.momentum = 0.5}.rule()->slots().size(), 1u);
  EXPECT_EQ(Sgd{.momentum = 0.5}.rule()->slots()[0].name, "momentum_buffer");
}

TEST(Sgd, RefusesValuesOutsideTheirRange) {
  EXPECT_THROW(Sgd{.learning_rate = -1}.rule(), Error);
  EXPECT_THROW(Sgd{.momentum = 1}.rule(), Error);
  EXPECT_THROW(Sgd{.momentum = -0.5}.rule(), Error);
  EXPECT_THROW(Sgd{.weight_decay = -1}.rule(), Error);
  EXPECT_THROW(Sgd{.nesterov = true}.rule(), Error);
}

TEST(Sgd, DescribesItself) {
  const auto config = Sgd{.learning_rate = 0.5, .momentum = 0.25}.rule()->config();
  EXPECT_EQ(config.at("name").as_string(), "sgd");
  EXPECT_EQ(config.at("momentum").as_double(), 0.25);
  EXPECT_EQ(Sgd{.learning_rate = 0.5}.rule()->defaults().learning_rate, 0.5);
}

}  // namespace
}  // namespace brigade::optim
