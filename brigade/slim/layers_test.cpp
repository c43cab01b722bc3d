#include "brigade/slim/layers.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/variables/graph.h"

namespace brigade::slim {
namespace {

using testing::ElementsAre;

std::vector<std::string> names(const std::vector<Variable>& variables) {
  std::vector<std::string> names;
  for (const Variable& variable : variables) names.push_back(variable.name());
  return names;
}

/// A typical Slim program.
at::Tensor net(const at::Tensor& images) {
  const auto defaults = slim::arg_scope<slim::conv2d, slim::fully_connected>(
      {.weights_initializer = slim::xavier_initializer(),
       .weights_regularizer = slim::l2_regularizer(0.5)});
  at::Tensor net = slim::conv2d(images, 4, {3, 3}, {.scope = "conv1"});
  net = slim::max_pool2d(net, {2, 2}, {.scope = "pool1"});
  net = slim::flatten(net, {.scope = "flatten"});
  return slim::fully_connected(net, 3, {.activation = nullptr, .scope = "fc1"});
}

TEST(SlimLayers, ANetReadsAndIsNamedAsInSlim) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const at::Tensor logits = net(at::ones({2, 1, 8, 8}));
  EXPECT_THAT(logits.sizes(), ElementsAre(2, 3));
  EXPECT_THAT(names(slim::get_model_variables()),
              ElementsAre("conv1/weights", "conv1/biases", "fc1/weights", "fc1/biases"));
  EXPECT_EQ(slim::losses::get_regularization_losses().size(), 2u);
}

TEST(SlimLayers, VariablesAreFoundByNameSuffixAndCollection) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  net(at::ones({2, 1, 8, 8}));
  slim::model_variable("statistic", {{2}}, {.trainable = false});
  slim::local_variable("counter", {{1}});
  slim::get_or_create_global_step();
  EXPECT_THAT(names(slim::get_variables_by_name("weights")),
              ElementsAre("conv1/weights", "fc1/weights"));
  EXPECT_THAT(names(slim::get_variables_by_suffix("ases", "fc1")), ElementsAre("fc1/biases"));
  EXPECT_THAT(names(slim::local_variables()), ElementsAre("counter"));
  EXPECT_THAT(names(slim::get_model_variables("stat")), ElementsAre("statistic"));
  EXPECT_EQ(slim::get_trainable_variables().size(), 4u);
  const std::vector<std::string> exclude = {"fc1", "global_step", "statistic"};
  EXPECT_THAT(names(slim::get_variables_to_restore({}, exclude)),
              ElementsAre("conv1/weights", "conv1/biases"));
  EXPECT_EQ(slim::get_unique_variable("fc1/biases").numel(), 3);
  EXPECT_THROW(slim::get_unique_variable("fc2/biases"), Error);
}

TEST(SlimLayers, TheVariableDeviceChooserIsRoundRobin) {
  const auto ask = [](const device::DeviceFunction& function, device::PlacedKind kind) {
    return function({.name = "x", .kind = kind});
  };
  const auto one = slim::variable_device_chooser();
  EXPECT_EQ(ask(one, device::PlacedKind::kVariable), "/device:CPU:0");
  EXPECT_EQ(ask(one, device::PlacedKind::kLayer), "");
  const auto two = slim::variable_device_chooser({.num_tasks = 2});
  EXPECT_EQ(ask(two, device::PlacedKind::kVariable), "/job:ps/task:0/device:CPU:0");
  EXPECT_EQ(ask(two, device::PlacedKind::kVariable), "/job:ps/task:1/device:CPU:0");
  EXPECT_EQ(ask(two, device::PlacedKind::kVariable), "/job:ps/task:0/device:CPU:0");
  EXPECT_THROW(slim::variable_device_chooser({.num_tasks = -1}), Error);
}

}  // namespace
}  // namespace brigade::slim
