#include "brigade/optim/device_counters.h"

#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/device/testing/fake_device.h"
#include "brigade/device/testing/recorded_graph.h"
#include "brigade/optim/adagrad.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/lars.h"
#include "brigade/optim/optimizer_state.h"
#include "brigade/optim/rms_prop.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/variable_store.h"

namespace brigade::optim {
namespace {

using device::testing::FakeDevice;
using device::testing::RecordedGraph;

struct TwoOnDevice : torch::nn::Module {
  explicit TwoOnDevice(c10::Device device) {
    a = register_parameter("a", at::linspace(-1, 1, 20).to(device));
    b = register_parameter("b", at::full({3, 2}, 0.5).to(device));
  }
  at::Tensor a, b;
};

/// An optimizer of two variables on a device.
struct OptimizerOn {
  OptimizerOn(c10::Device on, const UpdateRulePtr& rule,
              const std::vector<ParameterGroup>& groups = {})
      : device(on),
        store(std::vector<c10::Device>{on}, variables::StorageSharing::kOneCopyEach),
        variables(store.adopt(
            std::vector<std::shared_ptr<torch::nn::Module>>{std::make_shared<TwoOnDevice>(on)})),
        state(rule, variables, groups) {
    for (const double value : {0.75, -0.25}) {
      auto& row = gradients.emplace_back();
      for (const auto& variable : state.variables())
        row.push_back(at::full(variable.shape(), value).to(on));
    }
  }

  /// Queues an update.
  void update(std::size_t gradient, const std::vector<bool>& known = {true, true}) {
    const at::NoGradGuard no_grad;
    for (const UpdateRun& run : state.runs(known)) state.apply_whole(0, run, gradients[gradient]);
    state.advance(known);
  }
  std::vector<at::Tensor> values() const {
    std::vector<at::Tensor> all;
    for (std::size_t i = 0; i < variables.size(); ++i) {
      all.push_back(state.variables()[i].component(0).detach().to(at::kCPU));
      for (std::size_t slot = 0; slot < state.rule().slots().size(); ++slot)
        all.push_back(state.slot(i, slot, 0).to(at::kCPU));
    }
    return all;
  }

  c10::Device device;
  variables::VariableStore store;
  std::vector<variables::Variable> variables;
  OptimizerState state;
  std::vector<std::vector<at::Tensor>> gradients;
};

std::vector<UpdateRulePtr> all_rules() {
  return {Sgd{.learning_rate = 0.125, .weight_decay = 0.25}.rule(),
          Sgd{.learning_rate = 0.125, .momentum = 0.5, .nesterov = true}.rule(),
          Adam{.learning_rate = 0.125, .weight_decay = 0.25}.rule(),
          AdamW{.learning_rate = 0.125}.rule(),
          Adagrad{.learning_rate = 0.125, .learning_rate_decay = 0.5}.rule(),
          RmsProp{.learning_rate = 0.125}.rule(),
          RmsProp{.learning_rate = 0.125, .momentum = 0.5, .centered = true}.rule(),
          RmsProp{.learning_rate = 0.125, .momentum = 0.5, .form = RmsPropForm::kPyTorch}.rule(),
          Lars{.learning_rate = 0.125}.rule()};
}

void expect_close(const std::vector<at::Tensor>& ours, const std::vector<at::Tensor>& theirs,
                  const std::string& what) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(ours[i].allclose(theirs[i], 1e-5, 1e-7)) << what << ": " << i << "\n"
                                                         << ours[i] << "\n"
                                                         << theirs[i];
}

void expect_same(const std::vector<at::Tensor>& ours, const std::vector<at::Tensor>& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(ours[i].equal(theirs[i])) << i;
}

/// Six updates: another rate from the third on, one without a gradient of the second variable, and
/// numbers of updates that are set.
void train(OptimizerOn& optimizer) {
  optimizer.update(0);
  optimizer.update(1);
  optimizer.state.set_learning_rate(0.0625);
  optimizer.update(0);
  optimizer.update(1, {true, false});
  optimizer.update(1);
  optimizer.state.set_step(0, 9);
  optimizer.update(0);
}

TEST(DeviceCounters, UpdatesOfEveryRuleCountOnTheDeviceAndNothingWaitsForIt) {
  for (const UpdateRulePtr& rule : all_rules()) {
    const std::vector<ParameterGroup> groups = {{.names = {"b"}, .learning_rate = 0.5}};
    OptimizerOn on_cpu(c10::kCPU, rule, groups);
    OptimizerOn on_card(FakeDevice::device(), rule, groups);
    const int waits = FakeDevice::get().host_waits();
    train(on_card);
    EXPECT_EQ(FakeDevice::get().host_waits(), waits) << rule->name();
    train(on_cpu);
    expect_close(on_card.values(), on_cpu.values(), std::string(rule->name()));
    EXPECT_EQ(on_card.state.step(0), 10);
    EXPECT_EQ(on_card.state.step(1), on_cpu.state.step(1));
  }
}

/// The update as a graph, of which nothing has been computed yet.
CapturedUpdate capture(OptimizerOn& optimizer, RecordedGraph& graph) {
  optimizer.state.follow_host(0);
  graph.begin({});
  OptimizerState::CaptureScope scope(optimizer.state);
  optimizer.update(0);
  graph.end();
  return scope.update(0);
}

void replay(OptimizerOn& optimizer, RecordedGraph& graph, const CapturedUpdate& update) {
  optimizer.state.follow_host(0);
  graph.replay();
  optimizer.state.count_replay(0, update);
}

TEST(DeviceCounters, ACapturedUpdateCountsInEachReplayAndUsesTheRateOfThen) {
  for (const UpdateRulePtr& rule : all_rules()) {
    OptimizerOn eager(FakeDevice::device(), rule);
    OptimizerOn captured(FakeDevice::device(), rule);
    RecordedGraph graph;
    const CapturedUpdate update = capture(captured, graph);
    EXPECT_EQ(captured.state.step(0), 0) << "a capture computes nothing";
    const int waits = FakeDevice::get().host_waits();
    for (const double rate : {0.125, 0.125, 0.5, 0.25}) {
      eager.state.set_learning_rate(rate);
      captured.state.set_learning_rate(rate);
      eager.update(0);
      replay(captured, graph, update);
    }
    EXPECT_EQ(FakeDevice::get().host_waits(), waits);
    expect_same(captured.values(), eager.values());
    EXPECT_EQ(captured.state.step(0), 4);
    // An update between two replays, and one after.
    for (OptimizerOn* each : {&eager, &captured}) each->update(1);
    eager.update(0);
    replay(captured, graph, update);
    expect_same(captured.values(), eager.values());
  }
}

TEST(DeviceCounters, AReplayFollowsRestoredNumbersOfUpdates) {
  OptimizerOn eager(FakeDevice::device(), Adam{.learning_rate = 0.125}.rule());
  OptimizerOn captured(FakeDevice::device(), Adam{.learning_rate = 0.125}.rule());
  RecordedGraph graph;
  const CapturedUpdate update = capture(captured, graph);
  for (OptimizerOn* each : {&eager, &captured}) {
    each->state.set_step(0, 100);
    each->state.set_step(1, 100);
  }
  EXPECT_TRUE(captured.state.can_replay(update));
  eager.update(0);
  replay(captured, graph, update);
  expect_same(captured.values(), eager.values());
  captured.state.set_step(0, 50);
  EXPECT_FALSE(captured.state.can_replay(update)) << "two variables, two numbers of updates";
}

TEST(DeviceCounters, AnUpdateOnTheCpuIsNotCaptured) {
  OptimizerOn on_cpu(c10::kCPU, Sgd{}.rule());
  const OptimizerState::CaptureScope scope(on_cpu.state);
  EXPECT_THROW(scope.update(0), Error);
}

}  // namespace
}  // namespace brigade::optim
