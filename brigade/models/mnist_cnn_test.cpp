#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/relu.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/models/testing/variable_names.h"

namespace brigade::models {
namespace {

MnistCnn seeded_model(const MnistCnnOptions& options = {}) {
  at::set_num_threads(
      1);  // these batches are too small for two: waiting for each other is all they would do
  torch::manual_seed(3);
  return MnistCnn(options);
}

/// The network as in the tutorials, with the parameters of `model`.
at::Tensor textbook_forward(MnistCnn& model, at::Tensor x) {
  const auto p = model.named_parameters();
  x = at::relu(at::conv2d(x, p["conv1.weight"], p["conv1.bias"], 1, 2));
  x = at::max_pool2d(x, 2);
  x = at::relu(at::conv2d(x, p["conv2.weight"], p["conv2.bias"], 1, 2));
  x = at::max_pool2d(x, 2);
  x = at::relu(at::linear(x.flatten(1), p["dense1.weight"], p["dense1.bias"]));
  return at::linear(x, p["dense2.weight"], p["dense2.bias"]);
}

TEST(MnistCnn, HasTheParametersOfTheTutorial) {
  auto model = seeded_model();
  std::vector<std::string> names;
  std::int64_t count = 0;
  for (const auto& each : model.named_parameters()) {
    names.push_back(each.key());
    count += each.value().numel();
  }
  EXPECT_EQ(names, (std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight",
                                             "conv2.bias", "dense1.weight", "dense1.bias",
                                             "dense2.weight", "dense2.bias"}));
  EXPECT_EQ(count, 3'274'634);
}

TEST(MnistCnn, EqualsTheTextbookNetInValueAndGradient) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    auto model = seeded_model();
    model.to(type);
    const auto images = torch::rand({4, 1, 28, 28}, type);
    const auto labels = torch::tensor({1, 2, 3, 9});
    const auto gradients = [&](const at::Tensor& logits) {
      model.zero_grad();
      at::cross_entropy_loss(logits, labels).backward();
      std::vector<at::Tensor> all;
      for (const auto& each : model.parameters()) all.push_back(each.grad().clone());
      return all;
    };
    const auto logits = model(images), expected_logits = textbook_forward(model, images);
    EXPECT_TRUE(at::allclose(logits, expected_logits, 1e-6, 1e-7)) << type;
    const auto got = gradients(logits), expected = gradients(expected_logits);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto error = (got[i] - expected[i]).norm() / expected[i].norm();
      EXPECT_LT(error.item<double>(), type == at::kDouble ? 1e-14 : 1e-6) << type << " " << i;
    }
  }
}

TEST(MnistCnn, AcceptsImagesWithAndWithoutAChannelInAnyStrides) {
  auto model = seeded_model();
  const auto images = torch::rand({2, 28, 28});
  const auto expected = model(images);
  EXPECT_EQ(expected.sizes(), (std::vector<std::int64_t>{2, 10}));
  EXPECT_TRUE(at::equal(model(images.unsqueeze(1)), expected));
  EXPECT_TRUE(at::equal(model(images.unsqueeze(3).permute({0, 3, 1, 2})), expected));
  EXPECT_TRUE(at::equal(model(images.transpose(1, 2).contiguous().transpose(1, 2)), expected));
}

TEST(MnistCnn, AnEmptyBatchUsesEveryParameter) {
  auto model = seeded_model();
  const auto logits = model(torch::empty({0, 1, 28, 28}));
  EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{0, 10}));
  logits.sum().backward();
  for (const auto& each : model.named_parameters()) {
    ASSERT_TRUE(each.value().grad().defined()) << each.key();
    EXPECT_EQ(each.value().grad().abs().sum().item<double>(), 0.0) << each.key();
  }
}

TEST(MnistCnn, DropsOnlyInTraining) {
  auto model = seeded_model({.dropout = 0.5});
  const auto images = torch::rand({2, 28, 28});
  EXPECT_FALSE(at::equal(model(images), model(images)));
  model.eval();
  EXPECT_TRUE(at::equal(model(images), model(images)));
}

TEST(MnistCnn, RefusesOtherShapesAndOptions) {
  auto model = seeded_model();
  EXPECT_THROW(model(torch::ones({2, 3, 28, 28})), Error);
  EXPECT_THROW(model(torch::ones({2, 1, 28, 27})), Error);
  EXPECT_THROW(model(torch::ones({28, 28})), Error);
  EXPECT_THROW(model(at::Tensor()), Error);
  EXPECT_THROW(MnistCnn({.dropout = 1.0}), Error);
  EXPECT_THROW(MnistCnn({.classes = 0}), Error);
}

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
