#include "brigade/optim/moving_average.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/variables/variable_store.h"

namespace brigade::optim {
namespace {

using base::testing::message_of;
using testing::HasSubstr;
using variables::StorageSharing;
using variables::Variable;
using variables::VariableStore;

/// A variable with the values 1, -2 -> 2.3, -3.7 -> 4.9, -7.1 -> ..., as in the TensorFlow 2.21
/// program that computed the values below.
struct Grower {
  Variable variable = variables::make_variable({.name = "v", .initial = at::tensor({1.0F, -2.0F})});
  void step() const { variable.assign(variable.read() * 2 + 0.3); }
};

void expect_near(const at::Tensor& tensor, const std::vector<double>& values) {
  ASSERT_EQ(tensor.numel(), static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(tensor[static_cast<std::int64_t>(i)].item<double>(), values[i],
                1e-6 * std::abs(values[i]));
}

TEST(ExponentialMovingAverage, EqualsTensorFlow) {
  const Grower grower;
  ExponentialMovingAverage ema({.decay = 0.9}, {&grower.variable, 1});
  expect_near(ema.average(grower.variable), {1, -2});
  const std::vector<std::vector<double>> measured = {{1.1299999952316284, -2.1700000762939453},
                                                     {1.5070000886917114, -2.6630001068115234},
                                                     {2.366300344467163, -3.7867002487182617},
                                                     {4.179670810699463, -6.1580305099487305}};
  for (const auto& values : measured) {
    grower.step();
    ema.update();
    expect_near(ema.average(grower.variable), values);
  }
  EXPECT_EQ(ema.average_name(grower.variable), "v/ExponentialMovingAverage");
}

TEST(ExponentialMovingAverage, AdaptsFasterAtTheStartWithNumUpdates) {
  const Grower grower;
  ExponentialMovingAverage ema({.decay = 0.9}, {&grower.variable, 1});
  const std::vector<std::vector<double>> measured = {{2.1700000762939453, -3.5299999713897705},
                                                     {2.784250259399414, -4.333250045776367},
                                                     {3.724846839904785, -5.563261032104492},
                                                     {5.402362823486328, -7.756935119628906}};
  for (std::size_t i = 0; i < measured.size(); ++i) {
    grower.step();
    ema.update(static_cast<std::int64_t>(30 * i));
    expect_near(ema.average(grower.variable), measured[i]);
  }
}

TEST(ExponentialMovingAverage, FromZeroIsDebiasedAsInTensorFlow) {
  const Grower grower;
  ExponentialMovingAverage ema({.decay = 0.9, .zero_debias = true}, {&grower.variable, 1});
  EXPECT_THAT(message_of([&] { ema.average(grower.variable); }, ErrorCode::kFailedPrecondition),
              HasSubstr("before the first update"));
  const std::vector<std::vector<double>> measured = {{2.299999475479126, -3.6999990940093994},
                                                     {3.6684200763702393, -5.489471912384033},
                                                     {6.041695594787598, -8.592986106872559},
                                                     {10.245912551879883, -14.090807914733887}};
  for (const auto& values : measured) {
    grower.step();
    ema.update();
    expect_near(ema.average(grower.variable), values);
  }
}

TEST(AveragedWeights, RestoreTheTrainedValuesBitForBit) {
  VariableStore store({c10::kCPU, c10::kCPU}, StorageSharing::kOneStorage);
  const Variable weight =
      store.create({.name = "w", .initial = at::tensor({0.1F, 1.0F / 3, 1e-30F})});
  const Variable statistic = store.create({.name = "s",
                                           .initial = at::tensor({1.0F}),
                                           .trainable = false,
                                           .synchronization = variables::Synchronization::kOnRead,
                                           .aggregation = variables::Aggregation::kMean});
  const std::vector<Variable> both = {weight, statistic};
  ExponentialMovingAverage ema({.decay = 0.5}, both);
  weight.assign(at::tensor({0.3F, 2.0F / 3, 1e30F}));
  statistic.component(0).fill_(3);
  statistic.component(1).fill_(9);
  ema.update();
  const at::Tensor trained = weight.read();
  {
    const AveragedWeights averaged(ema);
    EXPECT_TRUE(weight.read().equal(ema.average(weight)));
    EXPECT_FALSE(weight.read().equal(trained));
    EXPECT_EQ(statistic.component(0).item<float>(), 3.5) << "of 1 and the mean of 3 and 9";
    EXPECT_EQ(statistic.component(1).item<float>(), 3.5);
    EXPECT_NO_THROW(weight.check_untouched(1));
    EXPECT_THAT(message_of([&] { ema.update(); }, ErrorCode::kFailedPrecondition),
                HasSubstr("average the averages"));
    EXPECT_THAT(
        message_of([&] { const AveragedWeights again(ema); }, ErrorCode::kFailedPrecondition),
        HasSubstr("already"));
  }
  EXPECT_TRUE(weight.read().equal(trained));
  EXPECT_EQ(statistic.component(0).item<float>(), 3);
  EXPECT_EQ(statistic.component(1).item<float>(), 9);
  EXPECT_NO_THROW(weight.check_untouched(1));
  ema.update();
}

TEST(ExponentialMovingAverage, ResumesFromItsStateExactly) {
  for (const bool debias : {false, true}) {
    const Grower grower;
    ExponentialMovingAverage ema({.decay = 0.9, .zero_debias = debias}, {&grower.variable, 1});
    grower.step();
    ema.update();
    const auto state = ema.state();
    ExponentialMovingAverage resumed({.decay = 0.9, .zero_debias = debias}, {&grower.variable, 1});
    resumed.restore(state);
    grower.step();
    ema.update();
    resumed.update();
    EXPECT_TRUE(resumed.average(grower.variable).equal(ema.average(grower.variable)));
  }
}

TEST(ExponentialMovingAverage, RefusesAnInvalidStateWithoutChanges) {
  const Grower grower;
  ExponentialMovingAverage ema({.decay = 0.9}, {&grower.variable, 1});
  const std::string name = "v/ExponentialMovingAverage";
  auto state = ema.state();
  state[name] = at::zeros({3});
  EXPECT_THAT(message_of([&] { ema.restore(state); }, ErrorCode::kInvalidArgument),
              HasSubstr(name));
  state = ema.state();
  state[name].fill_(7);
  state.erase("ExponentialMovingAverage/decay_product");
  EXPECT_THAT(message_of([&] { ema.restore(state); }, ErrorCode::kNotFound),
              HasSubstr("decay_product"));
  expect_near(ema.average(grower.variable), {1, -2});
}

TEST(ExponentialMovingAverage, RefusesVariablesWithoutAnAverage) {
  const Variable integral =
      variables::make_variable({.name = "n", .initial = at::tensor({1}), .trainable = false});
  const Grower grower;
  const auto refusal = [](MovingAverageOptions options, std::vector<Variable> of) {
    return message_of([&] { ExponentialMovingAverage(options, of); }, ErrorCode::kInvalidArgument);
  };
  EXPECT_THAT(refusal({}, {integral}), HasSubstr("'n' has dtype"));
  EXPECT_THAT(refusal({.decay = 1.5}, {}), HasSubstr("decay is 1.5"));
  EXPECT_THAT(refusal({}, {grower.variable, grower.variable}), HasSubstr("'v' is given twice"));
  const ExponentialMovingAverage none({}, {});
  EXPECT_THAT(message_of([&] { none.average(grower.variable); }, ErrorCode::kNotFound),
              HasSubstr("'v' is not averaged"));
}

TEST(ExponentialMovingAverage, IsTheSameInAnyOrderInMemory) {
  const at::Tensor first = at::arange(120, at::kFloat).view({2, 3, 4, 5});
  std::vector<Variable> variables;
  std::vector<std::unique_ptr<ExponentialMovingAverage>> averages;
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    variables.push_back(
        variables::make_variable({.name = "v", .initial = first, .memory_format = format}));
    averages.push_back(std::make_unique<ExponentialMovingAverage>(
        MovingAverageOptions{.decay = 0.9}, std::span(&variables.back(), 1)));
    variables.back().assign(first.sin());
    averages.back()->update();
  }
  const std::string name = "v/ExponentialMovingAverage";
  const at::Tensor expected = averages[0]->state().at(name);
  EXPECT_TRUE(averages[1]->state().at(name).equal(expected));
  averages[1]->update();
  EXPECT_FALSE(averages[1]->state().at(name).equal(expected));
  averages[1]->restore(averages[0]->state());
  const AveragedWeights swapped(*averages[1]);
  EXPECT_TRUE(variables[1].read().equal(expected));
  EXPECT_TRUE(variables[1].component(0).is_contiguous(at::MemoryFormat::ChannelsLast));
}

}  // namespace
}  // namespace brigade::optim
