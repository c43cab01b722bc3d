#include "brigade/optim/lars.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/optim/testing/update_rule_harness.h"

namespace brigade::optim {
namespace {

/// The parameters after steps 1, 2 and 6 of tools/tf_data/update_rules.py, in TensorFlow 2.21's
/// operations.
void expect_measured_lars(const Lars& options, bool layer_adaptation,
                          const std::vector<std::vector<double>>& measured) {
  UpdateRuleHarness ours(options.rule(), at::tensor({-0.5, 0.25, 0.75, 2.0}, at::kDouble));
  Hyperparameters rates = ours.rule->defaults();
  rates.layer_adaptation = layer_adaptation;
  std::size_t next = 0;
  for (std::int64_t step = 1; step <= 6; ++step) {
    const at::Tensor gradient = ((at::arange(4, at::kDouble) * 7 + 3 * step).remainder(11) - 5) / 4;
    ours.rule->apply({.parameters = {ours.parameter},
                      .gradients = {gradient},
                      .slots = {{ours.slots[0]}},
                      .step = step},
                     rates);
    if (step != 1 && step != 2 && step != 6) continue;
    EXPECT_LE(relative_difference(ours.parameter, at::tensor(measured[next++], at::kDouble)), 1e-15)
        << "step " << step;
  }
}

TEST(Lars, EqualsTensorFlowsOperations) {
  expect_measured_lars(
      {.learning_rate = 30}, true,
      {{-0.4787876751198135, 0.19697342984030575, 0.7393917165395207, 2.0318068217081566},
       {-0.4727724311757182, 0.1884835457107266, 0.6775269808155271, 2.0604223321706394},
       {-0.49800554424519256, 0.22037386871217357, 0.5513961256997888, 2.2002297313865578}});
  expect_measured_lars(
      {.learning_rate = 2,
       .momentum = 0.5,
       .weight_decay = 0.1,
       .trust_coefficient = 0.02,
       .epsilon = 0.3},
      true,
      {{-0.4766697073001344, 0.19591613965031163, 0.7362139179500794, 2.0233302926998658},
       {-0.4749803690291263, 0.20488619379958503, 0.6763871518056103, 2.0250196309708737},
       {-0.4782437574926687, 0.26388417504416284, 0.6082129012668369, 2.0217562425073314}});
}

TEST(Lars, WithoutLayerAdaptationItIsSgdWithMomentum) {
  expect_measured_lars(
      {.learning_rate = 0.1, .weight_decay = 0.1, .trust_coefficient = 0.02}, false,
      {{-0.445, 0.1225, 0.7175, 2.055},
       {-0.41605, 0.081525, 0.581075, 2.08395},
       {-0.3621759454804999, 0.03658983887525004, 0.30029104159074993, 2.1378240545195}});
}

TEST(Lars, AStepIsAFractionOfTheNorm) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf}) {
    for (const double scale : {1e-3, 1.0, 100.0}) {
      const at::Tensor initial = (at::rand({300}, at::kDouble) - 0.5).to(dtype);
      UpdateRuleHarness ours(Lars{.learning_rate = 50, .weight_decay = 0}.rule(), initial);
      ours.step((at::rand({300}, at::kDouble) - 0.5).mul(scale).to(dtype));
      const double moved =
          relative_difference(ours.parameter.to(at::kDouble), initial.to(at::kDouble));
      EXPECT_NEAR(moved, 0.05, dtype == at::kHalf ? 1e-3 : 1e-6) << dtype << " " << scale;
    }
  }
}

TEST(Lars, ZeroNormsHaveATrustOfOne) {
  const at::Tensor ones = at::arange(1, 4, at::kDouble);
  UpdateRuleHarness from_zero(Lars{.learning_rate = 0.5}.rule(), at::zeros({3}, at::kDouble));
  from_zero.step(ones);
  EXPECT_TRUE(from_zero.parameter.equal(ones * -0.5));
  UpdateRuleHarness without_gradient(Lars{.learning_rate = 0.5, .weight_decay = 0.5}.rule(), ones);
  without_gradient.step(at::zeros({3}, at::kDouble));
  EXPECT_TRUE(without_gradient.parameter.equal(ones * 0.75));
}

TEST(Lars, RangesAreSeparateVariables) {
  const auto rule = Lars{.learning_rate = 10}.rule();
  const at::Tensor initial = at::rand({8}, at::kDouble);
  const at::Tensor gradient = at::rand({8}, at::kDouble);
  UpdateRuleHarness apart(rule, initial);
  apart.step(gradient, {3});
  UpdateRuleHarness together(rule, initial);
  const auto halves = [](const at::Tensor& t) {
    return std::vector<at::Tensor>{t.narrow(0, 0, 3), t.narrow(0, 3, 5)};
  };
  rule->apply({.parameters = halves(together.parameter),
               .gradients = halves(gradient),
               .slots = {halves(together.slots[0])},
               .step = 1},
              rule->defaults());
  EXPECT_TRUE(together.parameter.equal(apart.parameter));
  UpdateRuleHarness one_range(rule, initial);
  one_range.step(gradient);
  EXPECT_FALSE(one_range.parameter.allclose(apart.parameter)) << "the norm of both";
}

TEST(Lars, DescribesItself) {
  const auto rule = Lars{}.rule();
  EXPECT_TRUE(rule->needs_whole_variables());
  ASSERT_EQ(rule->slots().size(), 1u);
  EXPECT_EQ(rule->slots()[0].name, "momentum_buffer");
  EXPECT_EQ(rule->defaults().weight_decay, 1e-4);
}

TEST(Lars, RefusesValuesOutsideTheirRange) {
  EXPECT_THROW(Lars{.learning_rate = -1}.rule(), Error);
  EXPECT_THROW(Lars{.momentum = 1}.rule(), Error);
  EXPECT_THROW(Lars{.weight_decay = -1}.rule(), Error);
  EXPECT_THROW(Lars{.trust_coefficient = 0}.rule(), Error);
  EXPECT_THROW(Lars{.epsilon = std::nan("")}.rule(), Error);
}

}  // namespace
}  // namespace brigade::optim
