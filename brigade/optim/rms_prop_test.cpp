#include "brigade/optim/rms_prop.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/optim/rmsprop.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/optim/row_update.h"
#include "brigade/optim/testing/update_rule_harness.h"

namespace brigade::optim {
namespace {

// The parameters of the first tests are those of TensorFlow 2.21 after steps 1, 2 and 6, written by
// tools/tf_data/update_rules.py, whose parameters and gradients these are. TensorFlow converts the
// options of its optimizers to float32 first; Keras does not.
constexpr std::int64_t kMeasuredSteps[] = {1, 2, 6};
using MeasuredParameters = std::vector<std::vector<double>>;

at::Tensor measured_initial() {
  return at::tensor({-0.5, 0.25, 0.75, 2.0}, at::kDouble);
}

at::Tensor measured_gradient(std::int64_t step) {
  return ((at::arange(4, at::kDouble) * 7 + 3 * step).remainder(11) - 5) / 4;
}

void expect_measured(const RmsProp& options, const MeasuredParameters& measured,
                     at::ScalarType dtype = at::kDouble) {
  UpdateRuleHarness ours(options.rule(), measured_initial().to(dtype));
  std::size_t next = 0;
  for (std::int64_t step = 1; step <= 6; ++step) {
    ours.step(measured_gradient(step).to(dtype));
    if (kMeasuredSteps[next] != step) continue;
    const at::Tensor theirs = at::tensor(measured[next++], at::kDouble);
    EXPECT_LE(relative_difference(ours.parameter.to(at::kDouble), theirs),
              dtype == at::kDouble ? 1e-15 : 1e-7)
        << "step " << step;
  }
}

TEST(RmsProp, EqualsTensorFlow) {
  expect_measured(
      {.learning_rate = 0.1F, .decay = 0.9F, .epsilon = 1e-10F},
      {{-0.44801247423464047, 0.1283739351128917, 0.7237387127143267, 2.076696500441898},
       {-0.4753100297579174, 0.2031174454870771, 0.6192327212876826, 2.076696500441898},
       {-0.5063941230782092, 0.30521011548190363, 0.558934891164172, 2.15182661939408}});
  expect_measured(
      {.learning_rate = 0.1F, .decay = 0.9F, .momentum = 0.9F, .epsilon = 1.0},
      {{-0.46396250078780027, 0.16282899351601848, 0.731892850415521, 2.053622751347238},
       {-0.4499652607986401, 0.13731718297538964, 0.643345266823455, 2.101883226281286},
       {-0.46338821971709987, 0.11681884549502439, 0.5042419034871131, 2.357353553568297}});
}

TEST(RmsProp, EqualsTensorFlowCentered) {
  expect_measured(
      {.learning_rate = 0.1F, .decay = 0.8F, .momentum = 0.5, .epsilon = 0.01F, .centered = true},
      {{-0.445767385053328, 0.1285892654260493, 0.7223921182592885, 2.079056942345199},
       {-0.448497701951962, 0.14251168848108037, 0.5969521064618171, 2.118585413517799},
       {-0.4947134621948084, 0.25547227714756504, 0.4892386088929756, 2.285232328547406}});
  expect_measured(
      {.learning_rate = 0.1F, .decay = 0.7F, .epsilon = 0.1F, .centered = true},
      {{-0.4458469627922348, 0.13231220980140138, 0.7222756507640596, 2.0782727090394815},
       {-0.47661168007357196, 0.20429896655659086, 0.6089657471209511, 2.0782727090394815},
       {-0.5229997943458045, 0.2985064793357689, 0.531715439772968, 2.1475278696833615}});
}

TEST(RmsProp, EqualsTensorFlowInFloat32) {
  expect_measured(
      {.learning_rate = 0.1, .momentum = 0.9, .epsilon = 1.0},
      {{-0.46396249532699585, 0.16282899677753448, 0.7318928241729736, 2.0536227226257324},
       {-0.4499652683734894, 0.13731719553470612, 0.6433452367782593, 2.1018831729888916},
       {-0.46338823437690735, 0.1168188750743866, 0.504241943359375, 2.357353448867798}},
      at::kFloat);
}

TEST(RmsProp, EqualsKeras) {
  expect_measured(
      {.learning_rate = 0.1, .epsilon = 1e-7, .initial_mean_square = 0},
      {{-0.18377286643679663, -0.06622766482400139, 0.4337747637749327, 2.3162274849258653},
       {-0.3312145661715694, 0.10280314319324824, 0.12608260173568492, 2.3162274849258653},
       {-0.45125740343029513, 0.2381968260993689, 0.07708526784310524, 2.380445506968433}});
  expect_measured(
      {.learning_rate = 0.1,
       .decay = 0.8,
       .momentum = 0.5,
       .epsilon = 0.01,
       .initial_mean_square = 0,
       .centered = true},
      {{-0.276393202250021, 0.004854831077269917, 0.5732233047033631, 2.2371708245126287},
       {-0.26531767387820404, 0.005581487094922871, 0.2366891235623121, 2.355756236768943},
       {-0.39979813844691203, 0.0903639431613185, -0.013909922999024715, 2.5622157658327405}});
}

TEST(RmsProp, RowsAreUpdatedAsByTensorFlow) {
  const auto rule =
      RmsProp{.learning_rate = 0.1F, .decay = 0.9F, .momentum = 0.9F, .epsilon = 1.0}.rule();
  UpdateRuleHarness ours(rule, measured_initial());
  const MeasuredParameters measured = {
      {-0.5, 0.16282899351601848, 0.75, 2.053622751347238},
      {-0.518107149584479, 0.16282899351601848, 0.679289320827674, 2.101883226281286},
      {-0.4485632419184793, 0.10189505589259501, 0.5284787047744731, 2.357353553568297}};
  std::size_t next = 0;
  for (std::int64_t step = 1; step <= 6; ++step) {
    std::vector<std::int64_t> rows = {step % 4, step * step % 4, 3};
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    const at::Tensor indices = at::tensor(rows, at::kLong);
    apply_rows(*rule,
               {.parameter = ours.parameter,
                .slots = ours.slots,
                .indices = indices,
                .gradients = measured_gradient(step).index_select(0, indices),
                .step = step},
               rule->defaults());
    if (kMeasuredSteps[next] != step) continue;
    EXPECT_LE(relative_difference(ours.parameter, at::tensor(measured[next++], at::kDouble)), 1e-15)
        << "step " << step;
  }
}

/// The rule that `torch::optim::RMSprop` has with the same rates.
RmsProp torch_form(RmsProp options) {
  options.initial_mean_square = 0;
  options.form = RmsPropForm::kPyTorch;
  return options;
}

class RmsPropSteps : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(RmsPropSteps, EqualsTorchStepByStep) {
  const double tolerance = GetParam() == at::kDouble ? 1e-14 : 2e-6;
  for (const RmsProp& each :
       {RmsProp{.learning_rate = 1e-2, .decay = 0.99, .epsilon = 1e-8},
        RmsProp{.learning_rate = 0.05, .momentum = 0.9, .epsilon = 0.1, .weight_decay = 0.2},
        RmsProp{.learning_rate = 0.05, .momentum = 0.5, .epsilon = 0.1, .centered = true}}) {
    const RmsProp options = torch_form(each);
    UpdateRuleHarness ours(options.rule(), at::rand({37}, GetParam()) - 0.5);
    at::Tensor theirs = ours.parameter.clone().set_requires_grad(true);
    torch::optim::RMSprop optimizer({theirs}, torch::optim::RMSpropOptions(options.learning_rate)
                                                  .alpha(options.decay)
                                                  .eps(options.epsilon)
                                                  .weight_decay(options.weight_decay)
                                                  .momentum(options.momentum)
                                                  .centered(options.centered));
    for (int step = 0; step < 20; ++step) {
      const at::Tensor gradient = at::rand({37}, GetParam()) - 0.5;
      ours.step(gradient);
      theirs.mutable_grad() = gradient.clone();
      optimizer.step();
      ASSERT_LE(relative_difference(ours.parameter, theirs.detach()), tolerance) << "step " << step;
    }
  }
}

const RmsProp kAllSlots{.momentum = 0.9, .weight_decay = 0.1, .centered = true};

TEST_P(RmsPropSteps, BitsDoNotDependOnCuts) {
  EXPECT_TRUE(bits_do_not_depend_on_cuts(RmsProp{}.rule(), GetParam()));
  EXPECT_TRUE(bits_do_not_depend_on_cuts(kAllSlots.rule(), GetParam()));
  EXPECT_TRUE(bits_do_not_depend_on_cuts(torch_form(kAllSlots).rule(), GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, RmsPropSteps, ::testing::Values(at::kFloat, at::kDouble));

// Other dtypes and devices are updated by operations of libtorch.
TEST(RmsProp, OtherDtypesAreUpdatedInTheSameWay) {
  for (const RmsProp& each : {RmsProp{.learning_rate = 0.2}, kAllSlots}) {
    for (RmsProp options : {each, torch_form(each)}) {
      options.learning_rate = 0.2;
      options.epsilon = 0.1;
      UpdateRuleHarness exact(options.rule(), at::rand({64}, at::kDouble) + 0.5);
      UpdateRuleHarness rounded(options.rule(), exact.parameter.to(at::kHalf));
      for (int step = 0; step < 4; ++step) {
        const at::Tensor gradient = at::rand({64}, at::kDouble).sub(0.5).to(at::kHalf);
        exact.step(gradient.to(at::kDouble));
        rounded.step(gradient);
      }
      EXPECT_LE(relative_difference(rounded.parameter.to(at::kDouble), exact.parameter), 3e-3);
    }
  }
}

TEST(RmsProp, RoundingDoesNotMakeADeviationNegative) {
  const RmsProp options{.epsilon = 0.1, .centered = true, .form = RmsPropForm::kPyTorch};
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf}) {
    UpdateRuleHarness ours(options.rule(), at::zeros({64}, dtype));
    const at::Tensor gradient = at::arange(1, 65).to(dtype) / 7;
    for (int step = 0; step < 300; ++step) ours.step(gradient);  // all equal: no deviation
    EXPECT_TRUE(ours.parameter.isfinite().all().item<bool>()) << dtype;
  }
}

TEST(RmsProp, KeepsTheSlotsThatItUses) {
  const auto names = [](const RmsProp& options) {
    const UpdateRulePtr rule = options.rule();
    std::vector<std::string> result;
    for (const SlotSpec& slot : rule->slots()) result.push_back(slot.name);
    return result;
  };
  EXPECT_EQ(names({}), (std::vector<std::string>{"square_avg"}));
  EXPECT_EQ(names({.momentum = 0.9}), (std::vector<std::string>{"square_avg", "momentum_buffer"}));
  EXPECT_EQ(names({.centered = true}), (std::vector<std::string>{"square_avg", "grad_avg"}));
  EXPECT_EQ(names(kAllSlots),
            (std::vector<std::string>{"square_avg", "momentum_buffer", "grad_avg"}));
  EXPECT_EQ(RmsProp{}.rule()->slots()[0].initial, 1.0);
  EXPECT_EQ(RmsProp{.initial_mean_square = 0}.rule()->slots()[0].initial, 0.0);
}

TEST(RmsProp, RefusesValuesOutsideTheirRange) {
  EXPECT_THROW(RmsProp{.learning_rate = -1}.rule(), Error);
  EXPECT_THROW(RmsProp{.decay = 1}.rule(), Error);
  EXPECT_THROW(RmsProp{.momentum = 1}.rule(), Error);
  EXPECT_THROW(RmsProp{.momentum = std::nan("")}.rule(), Error);
  EXPECT_THROW(RmsProp{.epsilon = 0}.rule(), Error);
  EXPECT_THROW(RmsProp{.weight_decay = -1}.rule(), Error);
  EXPECT_THROW(RmsProp{.initial_mean_square = -1}.rule(), Error);
}

}  // namespace
}  // namespace brigade::optim
