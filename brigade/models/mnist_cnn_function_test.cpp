#include "brigade/models/mnist_cnn_function.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <vector>

#include "brigade/base/error.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/models/testing/variable_names.h"

namespace brigade::models {
namespace {

TEST(MnistCnnFunction, ItsVariablesHaveTheNamesOfTensorFlowsLayers) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const at::Tensor logits = mnist_cnn(at::rand({2, 28, 28}));
  EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{2, 10}));
  EXPECT_EQ(variable_names(),
            (std::vector<std::string>{"conv_1/kernel", "conv_1/bias", "conv_2/kernel",
                                      "conv_2/bias", "dense_1/kernel", "dense_1/bias",
                                      "dense_2/kernel", "dense_2/bias"}));
}

TEST(MnistCnnFunction, ItsOperationsHaveTensorFlowsNames) {
  const auto placer = silent_placer();
  variables::Graph graph({.placer = placer});
  const auto opened = graph.as_default();
  mnist_cnn(at::rand({1, 28, 28}));
  EXPECT_EQ(operation_names(*placer),
            (std::vector<std::string>{"conv_1/Conv2D", "conv_2/Conv2D", "dense_1/MatMul",
                                      "dense_2/MatMul"}));
}

TEST(MnistCnnFunction, ComputesWhatTheModuleComputesWithTheSameWeights) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const at::Tensor images = at::rand({3, 1, 28, 28});
  const at::Tensor logits = mnist_cnn(images);
  MnistCnn module;
  const auto variables = variables::global_variables();
  const auto parameters = module.parameters();
  ASSERT_EQ(variables.size(), parameters.size());
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(variables[i].read());
  }
  EXPECT_TRUE(at::equal(module.forward(images), logits));
}

TEST(MnistCnnFunction, ASecondTowerReusesTheWeightsOfTheFirst) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const at::Tensor images = at::rand({1, 28, 28});
  const at::Tensor first = mnist_cnn(images);
  EXPECT_TRUE(at::equal(first, mnist_cnn(images, {.reuse = variables::Reuse::kYes})));
  EXPECT_THROW(mnist_cnn(images), Error);
}

TEST(MnistCnnFunction, RefusesOtherImagesAndOptions) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  EXPECT_THROW(mnist_cnn(at::rand({2, 3, 28, 28})), Error);
  EXPECT_THROW(mnist_cnn(at::rand({2, 28, 28}), {.classes = 0}), Error);
  EXPECT_THROW(mnist_cnn(at::rand({2, 28, 28}), {.dropout = 1.0}), Error);
}

}  // namespace
}  // namespace brigade::models
