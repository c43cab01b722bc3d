#include "brigade/models/slim_net.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <vector>

#include "brigade/models/testing/variable_names.h"

namespace brigade::models {
namespace {

TEST(SlimNet, ItsVariablesHaveTheNamesOfTheSlimTutorial) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const at::Tensor logits = slim_net(at::rand({2, 1, 28, 28}));
  EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{2, 10}));
  EXPECT_EQ(variable_names(),
            (std::vector<std::string>{"conv1/weights", "conv1/biases", "fc1/weights", "fc1/biases",
                                      "fc2/weights", "fc2/biases"}));
}

TEST(SlimNet, ItsOperationsHaveTensorFlowsNamesInATowersScope) {
  const auto placer = silent_placer();
  variables::Graph graph({.placer = placer});
  const auto opened = graph.as_default();
  const auto tower = variables::name_scope("tower_0");
  slim_net(at::rand({1, 1, 28, 28}));
  EXPECT_EQ(operation_names(*placer),
            (std::vector<std::string>{"tower_0/conv1/Conv2D", "tower_0/pool1/MaxPool",
                                      "tower_0/flatten/Reshape", "tower_0/fc1/MatMul",
                                      "tower_0/fc2/MatMul"}));
}

TEST(SlimNet, ReuseAndScopeShareAndSeparateWeights) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const at::Tensor images = at::rand({1, 1, 28, 28});
  const at::Tensor first = slim_net(images);
  EXPECT_TRUE(at::equal(first, slim_net(images, {.reuse = variables::Reuse::kYes})));
  EXPECT_FALSE(at::equal(first, slim_net(images, {.scope = "second"})));
  EXPECT_EQ(variable_names().size(), 12u);
  EXPECT_EQ(variable_names().at(6), "second/conv1/weights");
}

}  // namespace
}  // namespace brigade::models
