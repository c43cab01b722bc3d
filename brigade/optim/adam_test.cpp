#include "brigade/optim/adam.h"

#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include "brigade/base/error.h"
#include "brigade/optim/testing/update_rule_harness.h"

namespace brigade::optim {
namespace {

/// Updates with our rule and with torch::optim's, with the same gradients, and compares after each
/// step.
template <class TorchOptimizer>
void expect_equal_steps(const UpdateRulePtr& rule, const at::Tensor& initial,
                        const std::function<TorchOptimizer(std::vector<at::Tensor>)>& make_theirs,
                        double tolerance) {
  UpdateRuleHarness ours(rule, initial);
  at::Tensor theirs = initial.clone().set_requires_grad(true);
  TorchOptimizer optimizer = make_theirs({theirs});
  for (int step = 0; step < 20; ++step) {
    const at::Tensor gradient = at::rand({initial.numel()}, initial.options()) - 0.5;
    ours.step(gradient);
    theirs.mutable_grad() = gradient.clone();
    optimizer.step();
    ASSERT_LE(relative_difference(ours.parameter, theirs.detach()), tolerance) << "step " << step;
  }
  EXPECT_GT(relative_difference(ours.parameter, initial), 1e-3) << "nothing was learned";
}

template <class Options, class TorchOptions>
TorchOptions torch_options(const Options& o) {
  return TorchOptions(o.learning_rate)
      .betas({o.beta1, o.beta2})
      .eps(o.epsilon)
      .weight_decay(o.weight_decay);
}

class AdamSteps : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  at::Tensor initial_ = at::rand({37}, GetParam()) - 0.5;
  double tolerance_ = GetParam() == at::kDouble ? 1e-14 : 2e-6;
};

TEST_P(AdamSteps, AdamEqualsTorchStepByStep) {
  for (const Adam& options : {Adam{}, Adam{.learning_rate = 0.05,
                                      .beta1 = 0.5,
                                      .beta2 = 0.9,
                                      .epsilon = 1e-3,
                                      .weight_decay = 0.1}}) {
    expect_equal_steps<torch::optim::Adam>(
        options.rule(), initial_,
        [&](auto parameters) {
          return torch::optim::Adam(parameters,
                                    torch_options<Adam, torch::optim::AdamOptions>(options));
        },
        tolerance_);
  }
}

TEST_P(AdamSteps, AdamWEqualsTorchStepByStep) {
  for (const AdamW& options : {AdamW{}, AdamW{.learning_rate = 0.05, .weight_decay = 0.3}}) {
    expect_equal_steps<torch::optim::AdamW>(
        options.rule(), initial_,
        [&](auto parameters) {
          return torch::optim::AdamW(parameters,
                                     torch_options<AdamW, torch::optim::AdamWOptions>(options));
        },
        tolerance_);
  }
}

TEST_P(AdamSteps, BitsDoNotDependOnCuts) {
  EXPECT_TRUE(bits_do_not_depend_on_cuts(Adam{.weight_decay = 0.1}.rule(), GetParam()));
  EXPECT_TRUE(bits_do_not_depend_on_cuts(AdamW{}.rule(), GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, AdamSteps, ::testing::Values(at::kFloat, at::kDouble));

TEST(Adam, AcceptsSeveralRangesInOneCall) {
  UpdateRuleHarness alone(Adam{}.rule(), at::rand({8}));
  const at::Tensor gradient = at::rand({8});
  const at::Tensor together = alone.parameter.clone();
  const at::Tensor first = at::zeros({8});
  const at::Tensor second = at::zeros({8});
  alone.step(gradient);
  const auto halves = [](const at::Tensor& t) {
    return std::vector<at::Tensor>{t.narrow(0, 0, 3), t.narrow(0, 3, 5)};
  };
  alone.rule->apply({.parameters = halves(together),
                     .gradients = halves(gradient),
                     .slots = {halves(first), halves(second)},
                     .step = 1},
                    alone.rule->defaults());
  EXPECT_LE(relative_difference(together, alone.parameter), 1e-7);
}

TEST(Adam, RatesOfTheCallOverrideThoseOfTheRule) {
  const at::Tensor initial = at::rand({4}, at::kDouble);
  const at::Tensor gradient = at::rand({4}, at::kDouble) + 0.1;
  UpdateRuleHarness half(Adam{.learning_rate = 0.5, .weight_decay = 0.5}.rule(), initial);
  UpdateArguments arguments{.parameters = {half.parameter}, .gradients = {gradient}, .step = 1};
  for (const at::Tensor& slot : half.slots) arguments.slots.push_back({slot});
  half.rule->apply(arguments, {.learning_rate = 0, .weight_decay = 0});
  EXPECT_TRUE(half.parameter.equal(initial));
  EXPECT_FALSE(half.slots[0].equal(at::zeros({4}, at::kDouble)));
}

TEST(Adam, RefusesValuesOutsideTheirRange) {
  EXPECT_THROW(Adam{.learning_rate = -1}.rule(), Error);
  EXPECT_THROW(Adam{.beta1 = 1}.rule(), Error);
  EXPECT_THROW(Adam{.beta2 = -0.1}.rule(), Error);
  EXPECT_THROW(Adam{.epsilon = -1}.rule(), Error);
  EXPECT_THROW(AdamW{.weight_decay = -1}.rule(), Error);
  EXPECT_THROW(AdamW{.learning_rate = std::nan("")}.rule(), Error);
  try {
    Adam{.beta1 = 1.5}.rule();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("beta1 is 1.5"), std::string::npos) << error.what();
  }
}

TEST(Adam, DescribesItself) {
  const UpdateRulePtr rule = AdamW{.beta1 = 0.8}.rule();
  EXPECT_EQ(rule->name(), "adamw");
  EXPECT_EQ(rule->slots().size(), 2u);
  EXPECT_EQ(rule->slots()[0].name, "exp_avg");
  EXPECT_EQ(rule->defaults().weight_decay, 1e-2);
  EXPECT_EQ(rule->config().at("name").as_string(), "adamw");
  EXPECT_EQ(rule->config().at("beta1").as_double(), 0.8);
  EXPECT_EQ(Adam{}.rule()->name(), "adam");
}

}  // namespace
}  // namespace brigade::optim
