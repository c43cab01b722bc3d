#include "brigade/models/cifar_resnet.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/models/testing/pattern_weights.h"
#include "brigade/models/testing/variable_names.h"

namespace brigade::models {
namespace {

using variables::Mode;
using Shape = std::vector<std::int64_t>;

at::Tensor cifar_images(std::int64_t count = 2) {
  return pattern_values("images", {count, 3, 32, 32});
}

std::int64_t trainable_parameters(const CifarResNetOptions& options) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  cifar_resnet(cifar_images(1), options);
  std::int64_t count = 0;
  for (const auto& variable : variables::trainable_variables()) count += variable.numel();
  return count;
}

// By hand: the convolutions of ResNet-20 have 267,696 weights, its batch norms 1,376 parameters,
// the classifier 650; the two projections add 512 + 64 and 2,048 + 128. The paper's table 6 says
// 0.27M, 0.46M and 0.85M for depths of 20, 32 and 56.
TEST(CifarResNet, HasThePapersNumbersOfParameters) {
  EXPECT_EQ(trainable_parameters({}), 269'722);
  EXPECT_EQ(trainable_parameters({.shortcut = Shortcut::kProjection}), 272'474);
  EXPECT_EQ(trainable_parameters({.depth = 32}), 464'154);
  EXPECT_EQ(trainable_parameters({.depth = 56}), 853'018);
}

TEST(CifarResNet, GivesItsEndPoints) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const auto result = cifar_resnet(cifar_images(), {.depth = 8});
  std::vector<std::string> names;
  for (const auto& point : result.end_points) names.push_back(point.name);
  EXPECT_EQ(names, (std::vector<std::string>{"conv1", "block1/unit_1", "block1", "block2/unit_1",
                                             "block2", "block3/unit_1", "block3", "global_pool",
                                             "logits", "predictions"}));
  EXPECT_EQ(result.end_points.at("block1").sizes(), (Shape{2, 16, 32, 32}));
  EXPECT_EQ(result.end_points.at("block2").sizes(), (Shape{2, 32, 16, 16}));
  EXPECT_EQ(result.end_points.at("block3").sizes(), (Shape{2, 64, 8, 8}));
  EXPECT_EQ(result.logits.sizes(), (Shape{2, 10}));
  EXPECT_EQ(variable_names().at(5), "block1/unit_1/conv1/weights");
}

// With gamma and beta of 0 at the end of a unit only its shortcut is left.
TEST(CifarResNet, AShortcutWithoutParametersTakesEverySecondRowAndAddsChannelsOfZeros) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  cifar_resnet(cifar_images(), {.depth = 8});
  variables::global_variables("block2/unit_1/conv2/BatchNorm/gamma").at(0).assign(at::zeros({32}));
  const auto points =
      cifar_resnet(cifar_images(), {.depth = 8, .reuse = variables::Reuse::kYes}).end_points;
  const at::Tensor before = points.at("block1"), after = points.at("block2");
  EXPECT_TRUE(at::equal(after.narrow(1, 0, 16), before.slice(2, 0, 32, 2).slice(3, 0, 32, 2)));
  EXPECT_EQ(after.narrow(1, 16, 16).abs().max().item<double>(), 0.0);
}

TEST(CifarResNet, RefusesOptionsOutOfRange) {
  const std::vector<std::pair<CifarResNetOptions, std::string>> cases = {
      {{.depth = 18}, "depth is 18; expected 6 n + 2"},
      {{.depth = 2}, "depth is 2"},
      {{.depth = -4}, "depth is -4"},
      {{.num_classes = 0}, "num_classes is 0"},
      {{.channels = 0}, "channels is 0"}};
  for (const auto& [options, text] : cases) {
    try {
      cifar_resnet(cifar_images(), options);
      ADD_FAILURE() << "nothing was thrown: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace brigade::models
