#include "brigade/distribute/compiled_step.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/strategy.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/optim/sgd.h"

namespace brigade::distribute {
namespace {

struct DroppingNet : torch::nn::Module {
  DroppingNet() {
    linear = register_module("linear", torch::nn::Linear(4, 3));
    dropout = register_module("dropout", torch::nn::Dropout(0.5));
  }
  at::Tensor forward(const at::Tensor& x) { return dropout(linear(x)); }
  torch::nn::Linear linear{nullptr};
  torch::nn::Dropout dropout{nullptr};
};

enum class How { kRun, kCompiled };

/// The weights, and the losses, of a training whose last batches are smaller and whose rate
/// changes.
std::vector<at::Tensor> train_for_values(Strategy& strategy, How how) {
  auto model = strategy.create<DroppingNet>();
  auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1, .momentum = 0.9});
  const auto step = [&](const at::Tensor& x) {
    const at::Tensor loss = model(x).square().mean();
    sgd.minimize(loss, LossScale::kSum);
    return loss.detach();
  };
  auto compiled = strategy.compile(step);
  std::vector<at::Tensor> seen;
  for (int number = 0; number < 8; ++number) {
    const at::Tensor x = at::full({number < 6 ? 8 : 5, 4}, 1.0F + static_cast<float>(number));
    if (number == 3) sgd.set_learning_rate(0.01);
    const auto losses = how == How::kRun ? strategy.run(step, x) : compiled(x);
    seen.insert(seen.end(), losses.values().begin(), losses.values().end());
  }
  for (const auto& variable : model.variables()) seen.push_back(variable.component(0).clone());
  return seen;
}

void expect_equal_trainings(Strategy& one, Strategy& other) {
  const auto run = train_for_values(one, How::kRun);
  const auto compiled = train_for_values(other, How::kCompiled);
  ASSERT_EQ(run.size(), compiled.size());
  for (std::size_t i = 0; i < run.size(); ++i) EXPECT_TRUE(at::equal(run[i], compiled[i])) << i;
}

TEST(CompiledStep, HasTheResultsOfRunWithOtherShapesRatesAndDropout) {
  OneDeviceStrategy one({.device = "cpu:0", .seed = 7});
  OneDeviceStrategy other({.device = "cpu:0", .seed = 7});
  expect_equal_trainings(one, other);
  MirroredStrategy two(cpus(2, 7));
  MirroredStrategy two_others(cpus(2, 7));
  expect_equal_trainings(two, two_others);
}

TEST(CompiledStep, SaysWhyItRunsEagerly) {
  OneDeviceStrategy one("cpu:0");
  auto on_cpu = one.compile([](const at::Tensor& x) { return x + 1; });
  EXPECT_EQ(on_cpu(at::full({2}, 1.0)).values()[0][0].item<double>(), 2);
  EXPECT_NE(on_cpu.eager_reason().find("on a CPU"), std::string::npos) << on_cpu.eager_reason();
  MirroredStrategy two(cpus(2));
  auto on_two = two.compile([] {});
  on_two();
  EXPECT_NE(on_two.eager_reason().find("several replicas"), std::string::npos);
}

TEST(CompiledStep, TakesWhatRunTakes) {
  MirroredStrategy two(cpus(2));
  int calls = 0;
  auto step = two.compile(
      [&](ReplicaContext& context, const std::string& text, int number) {
        if (context.replica_id() == 0) ++calls;
        return text + std::to_string(number);
      },
      {.warmup = 1});
  const auto results = step(std::string("a"), PerReplica<int>({1, 2}));
  EXPECT_EQ(results.values(), std::vector<std::string>({"a1", "a2"}));
  EXPECT_EQ(calls, 1);
}

TEST(CompiledStep, ABodyThatThrowsThrowsAndTheNextCallWorks) {
  OneDeviceStrategy one("cpu:0");
  bool throws = true;
  auto step = one.compile([&](const at::Tensor& x) {
    if (throws) throw Error(ErrorCode::kOutOfRange, "the body gave up");
    return x * 2;
  });
  const at::Tensor x = at::full({2}, 3.0);
  const Error error = error_from([&] { step(x); });
  EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
  EXPECT_TRUE(mentions(error, "the body gave up"));
  throws = false;
  EXPECT_EQ(step(x).values()[0][0].item<double>(), 6);
}

}  // namespace
}  // namespace brigade::distribute
