#include "brigade/models/function_classifier.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include <sstream>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/comm/replica.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/conv2d.h"
#include "brigade/layers/normalization.h"
#include "brigade/variables/graph.h"
#include "brigade/variables/variable_lists.h"

namespace brigade::models {
namespace {

using variables::Graph;
using variables::Mode;

at::Tensor small_net(const at::Tensor& images, Mode mode) {
  const auto defaults = layers::arg_scope<layers::batch_norm>({.decay = 0.5, .mode = mode});
  const auto net = layers::conv2d(
      images, 2, 3, {.normalizer = layers::batch_normalizer({.scale = true}), .scope = "conv"});
  return layers::fully_connected(layers::flatten(net), 3, {.activation = nullptr, .scope = "fc"});
}

FunctionClassifier make_module() {
  return FunctionClassifier("small_net", small_net, at::zeros({0, 1, 4, 4}));
}

at::Tensor images() {
  return (at::arange(64) * 3 % 7 - 3).to(at::kFloat).view({4, 1, 4, 4});
}

template <class Named>
std::vector<std::string> names_of(const Named& tensors) {
  std::vector<std::string> names;
  for (const auto& each : tensors) names.push_back(each.key());
  return names;
}

TEST(FunctionClassifier, RegistersTheVariablesUnderTheirNames) {
  const auto module = make_module();
  EXPECT_EQ(names_of(module.named_parameters()),
            (std::vector<std::string>{"conv/weights", "conv/BatchNorm/gamma", "conv/BatchNorm/beta",
                                      "fc/weights", "fc/biases"}));
  EXPECT_EQ(
      names_of(module.named_buffers()),
      (std::vector<std::string>{"conv/BatchNorm/moving_mean", "conv/BatchNorm/moving_variance"}));
  for (const auto& parameter : module.parameters()) EXPECT_TRUE(parameter.requires_grad());
  for (const auto& buffer : module.buffers()) EXPECT_FALSE(buffer.requires_grad());
}

TEST(FunctionClassifier, ComputesWhatTheFunctionComputes) {
  auto module = make_module();
  Graph graph;
  const auto opened = graph.as_default();
  small_net(images(), Mode::kTraining);
  const auto parameters = module.named_parameters();
  for (const auto& variable : variables::trainable_variables()) {
    variable.assign(parameters[variable.name()].detach());
  }
  const auto again =
      variables::variable_scope(variables::get_variable_scope(), {.reuse = variables::Reuse::kYes});
  EXPECT_TRUE(module.forward(images()).equal(small_net(images(), Mode::kTraining)));
  EXPECT_EQ(graph.update_ops().size(), 4u) << "the module's are its own";
}

TEST(FunctionClassifier, StatisticsMoveInTrainingAndServeInEvaluation) {
  auto module = make_module();
  const auto mean = [&] { return module.named_buffers()["conv/BatchNorm/moving_mean"].clone(); };
  EXPECT_EQ(mean().abs().sum().item<float>(), 0.0F) << "the first pass had no examples";
  const auto in_training = module.forward(images());
  const auto moved = mean();
  EXPECT_GT(moved.abs().sum().item<float>(), 0.0F);
  module.eval();
  const auto in_evaluation = module.forward(images());
  EXPECT_TRUE(mean().equal(moved));
  EXPECT_FALSE(at::allclose(in_training, in_evaluation));
}

TEST(FunctionClassifier, TrainsWithAnOptimizerOfLibtorch) {
  auto module = make_module();
  const auto labels = torch::tensor({0, 1, 2, 0}, at::kLong);
  torch::optim::SGD sgd(module.parameters(), 0.1);
  double first = 0.0, last = 0.0;
  for (int step = 0; step < 30; ++step) {
    sgd.zero_grad();
    const auto loss = torch::nll_loss(torch::log_softmax(module.forward(images()), 1), labels);
    loss.backward();
    sgd.step();
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, 0.5 * first);
}

TEST(FunctionClassifier, MovesToAnotherDtype) {
  auto module = make_module();
  module.to(at::kDouble);
  const auto logits = module.forward(images().to(at::kDouble));
  EXPECT_EQ(logits.scalar_type(), at::kDouble);
  logits.sum().backward();
  EXPECT_EQ(module.parameters().front().grad().scalar_type(), at::kDouble);
  EXPECT_EQ(module.named_buffers()["conv/BatchNorm/moving_mean"].scalar_type(), at::kDouble);
}

TEST(FunctionClassifier, InitialValuesFollowTheGeneratorOfTheThread) {
  torch::manual_seed(1);
  const auto first = make_module();
  torch::manual_seed(1);
  const auto same = make_module();
  const auto other = make_module();
  EXPECT_TRUE(first.parameters().front().equal(same.parameters().front()));
  EXPECT_FALSE(first.parameters().front().equal(other.parameters().front()));
}

TEST(FunctionClassifier, ComputesWithItsOwnTensorsInAnyReplica) {
  auto module = make_module();
  module.eval();
  const auto outside = module.forward(images());
  const comm::Replica third{.id = 2, .count = 3, .local_id = 2};
  const base::AmbientScope<const comm::Replica> inside(comm::kReplicaSlot, &third);
  EXPECT_TRUE(module.forward(images()).equal(outside));
  module.train();
  EXPECT_NO_THROW(module.forward(images())) << "statistics move";
}

TEST(FunctionClassifier, IsSavedAndLoadedByLibtorch) {
  auto module = make_module();
  module.eval();
  std::stringstream file;
  torch::serialize::OutputArchive saved;
  module.save(saved);
  saved.save_to(file);
  auto other = make_module();
  other.eval();
  torch::serialize::InputArchive archive;
  archive.load_from(file);
  other.load(archive);
  EXPECT_TRUE(other.forward(images()).equal(module.forward(images())));
}

TEST(FunctionClassifier, RefusesVariablesWithDots) {
  const auto dotted = [](const at::Tensor& batch, Mode) {
    return layers::fully_connected(batch, 1, {.scope = "a.b"});
  };
  EXPECT_THROW(FunctionClassifier("dotted", dotted, at::zeros({0, 1})), Error);
}

}  // namespace
}  // namespace brigade::models
