#include "brigade/ps/store/parameter.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "brigade/base/error.h"
#include "brigade/optim/sgd.h"

namespace brigade::ps {
namespace {

/// Changes the value and then fails, as when memory runs out in the middle.
class FailingRule final : public optim::UpdateRule {
 public:
  std::string_view name() const override { return "failing"; }
  const std::vector<optim::SlotSpec>& slots() const override { return slots_; }
  optim::Hyperparameters defaults() const override { return {}; }
  void apply(const optim::UpdateArguments& arguments,
             const optim::Hyperparameters&) const override {
    arguments.parameters.front().add_(1);
    throw std::runtime_error("no memory");
  }
  io::StateTree config() const override { return {}; }

 private:
  std::vector<optim::SlotSpec> slots_;
};

Parameter::Reading read(const Parameter& parameter) {
  return parameter.read(parameter.order().draw(), at::empty(parameter.sizes(), parameter.dtype()));
}

TEST(Parameter, CountsItsUpdatesAndGivesCopies) {
  const auto rule = optim::Sgd{.learning_rate = 1}.rule();
  Parameter parameter({.value = at::zeros({3}, at::kDouble)}, {}, *rule);
  const Parameter::Reading before = read(parameter);
  parameter.update(parameter.order().draw(), *rule, at::ones({3}, at::kDouble), rule->defaults());
  const Parameter::Reading after = read(parameter);
  EXPECT_TRUE(at::equal(before.value, at::zeros({3}, at::kDouble)));
  EXPECT_EQ(before.updates, 0);
  EXPECT_TRUE(at::equal(after.value, at::full({3}, -1, at::kDouble)));
  EXPECT_EQ(after.updates, 1);
}

TEST(Parameter, HasTheRatesOfItsGroup) {
  const auto rule = optim::Sgd{.learning_rate = 1, .weight_decay = 0.5}.rule();
  const Parameter plain({.value = at::zeros({3}, at::kDouble)}, {}, *rule);
  EXPECT_EQ(plain.hyperparameters(*rule, 0.1).learning_rate, 0.1);
  EXPECT_EQ(plain.hyperparameters(*rule, 0.1).weight_decay, 0.5);
  const Parameter grouped({.value = at::zeros({3}, at::kDouble)},
                          {.learning_rate = 0.0, .weight_decay = 0.25}, *rule);
  EXPECT_EQ(grouped.hyperparameters(*rule, 0.1).learning_rate, 0.0);
  EXPECT_EQ(grouped.hyperparameters(*rule, 0.1).weight_decay, 0.25);
}

TEST(Parameter, AnAssignedStateReplacesEverything) {
  const auto rule = optim::Sgd{.learning_rate = 1, .momentum = 0.5}.rule();
  Parameter parameter({.value = at::zeros({3}, at::kDouble)}, {}, *rule);
  parameter.update(parameter.order().draw(), *rule, at::ones({3}, at::kDouble), rule->defaults());
  parameter.assign(parameter.order().draw(), {.value = at::full({3}, 7, at::kDouble),
                                              .slots = {at::full({3}, 2, at::kDouble)},
                                              .updates = 9});
  parameter.update(parameter.order().draw(), *rule, at::ones({3}, at::kDouble), rule->defaults());
  const Parameter::State state = parameter.state(parameter.order().draw());
  EXPECT_TRUE(at::equal(state.slots.at(0), at::full({3}, 2, at::kDouble))) << "0.5 * 2 + 1";
  EXPECT_TRUE(at::equal(state.value, at::full({3}, 5, at::kDouble)));
  EXPECT_EQ(state.updates, 10);
}

TEST(Parameter, AnAssignmentLeavesTheShapeThatOthersLookAt) {
  const auto rule = optim::Sgd{}.rule();
  Parameter parameter({.value = at::zeros({2, 3}, at::kDouble)}, {}, *rule);
  const at::IntArrayRef sizes = parameter.sizes();
  parameter.assign(parameter.order().draw(), {.value = at::ones({2, 3}, at::kDouble)});
  EXPECT_EQ(parameter.sizes().data(), sizes.data()) << "it is read without a ticket";
  EXPECT_EQ(sizes, at::IntArrayRef({2, 3}));
  EXPECT_EQ(parameter.dtype(), at::kDouble);
}

TEST(Parameter, AfterAFailedUpdateItIsNeitherReadNorSavedNorUpdated) {
  const FailingRule rule;
  Parameter parameter({.value = at::zeros({3}, at::kDouble)}, {}, rule);
  const at::Tensor gradient = at::ones({3}, at::kDouble);
  EXPECT_THROW(parameter.update(parameter.order().draw(), rule, gradient, {}), std::runtime_error);
  EXPECT_THROW(read(parameter), Error);
  EXPECT_THROW(parameter.state(parameter.order().draw()), Error);
  const auto good = optim::Sgd{}.rule();
  EXPECT_THROW(parameter.update(parameter.order().draw(), *good, gradient, good->defaults()),
               Error);
}

}  // namespace
}  // namespace brigade::ps
