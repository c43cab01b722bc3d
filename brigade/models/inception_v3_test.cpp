#include "brigade/models/inception_v3.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/layers/conv2d.h"
#include "brigade/models/testing/variable_names.h"
#include "brigade/variables/variable_lists.h"

namespace brigade::models {
namespace {

using variables::Graph;
using variables::Mode;
using variables::Reuse;
using variables::Variable;
using Shape = std::vector<std::int64_t>;

/// No images: shapes and variables without the computation.
at::Tensor no_images(std::int64_t side) {
  return at::zeros({0, 3, side, side});
}

/// As `inception_v3`, with its argument scope, but without drawing numbers for the weights.
InceptionV3Result apply(const at::Tensor& images, const InceptionV3Options& options = {},
                        const InceptionV3ArgScopeOptions& defaults = {}) {
  const auto scope = layers::arg_scope(inception_v3_arg_scope(defaults));
  const auto zeros =
      layers::arg_scope<layers::conv2d>({.weights_initializer = variables::zeros_initializer()});
  return inception_v3(images, options);
}

/// A model with as few channels as possible, for tests that compute.
InceptionV3Options thin(InceptionV3Options options = {}) {
  options.depth_multiplier = 1e-3;
  options.min_depth = 2;
  options.num_classes = std::min<std::int64_t>(options.num_classes, 5);
  return options;
}

std::int64_t total(const std::vector<Variable>& variables) {
  return std::accumulate(variables.begin(), variables.end(), std::int64_t{0},
                         [](std::int64_t sum, const Variable& each) { return sum + each.numel(); });
}

void expect_refused(const std::function<void()>& call, const std::string& part_of_message) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown; expected: " << part_of_message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find(part_of_message), std::string::npos) << error.what();
  }
}

// The numbers are those of tf_slim 1.1, with its own argument scope.
TEST(InceptionV3, HasTfSlimsVariables) {
  Graph graph;
  const auto opened = graph.as_default();
  apply(no_images(299));
  EXPECT_EQ(variables::trainable_variables().size(), 196u);
  EXPECT_EQ(total(variables::trainable_variables()), 27'143'152);
  EXPECT_EQ(variables::global_variables().size(), 388u);
  EXPECT_EQ(total(variables::global_variables()), 27'179'376);
  EXPECT_EQ(variables::get_regularization_losses().size(), 98u);
  const auto names = variable_names();
  const std::set<std::string> all(names.begin(), names.end());
  for (const char* name :
       {"InceptionV3/Conv2d_1a_3x3/weights", "InceptionV3/Conv2d_1a_3x3/BatchNorm/beta",
        "InceptionV3/Conv2d_1a_3x3/BatchNorm/moving_mean",
        "InceptionV3/Conv2d_1a_3x3/BatchNorm/moving_variance",
        "InceptionV3/Mixed_5b/Branch_1/Conv2d_0b_5x5/weights",
        "InceptionV3/Mixed_5c/Branch_1/Conv2d_0b_1x1/weights",
        "InceptionV3/Mixed_5c/Branch_1/Conv_1_0c_5x5/weights",
        "InceptionV3/Mixed_6a/Branch_0/Conv2d_1a_1x1/weights",
        "InceptionV3/Mixed_7b/Branch_1/Conv2d_0b_3x1/weights",
        "InceptionV3/Mixed_7c/Branch_1/Conv2d_0c_3x1/weights",
        "InceptionV3/AuxLogits/Conv2d_2a_5x5/weights", "InceptionV3/AuxLogits/Conv2d_2b_1x1/biases",
        "InceptionV3/Logits/Conv2d_1c_1x1/biases"}) {
    EXPECT_TRUE(all.contains(name)) << name;
  }
  EXPECT_EQ(variables::global_variables("InceptionV3/Mixed_6b/Branch_1/Conv2d_0b_1x7/weights")
                .at(0)
                .shape(),
            (Shape{128, 128, 1, 7}));
}

TEST(InceptionV3, WithoutTheAuxiliaryHeadHasTfSlimsVariables) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto net = apply(no_images(299), {.create_aux_logits = false});
  EXPECT_FALSE(net.end_points.contains("AuxLogits"));
  EXPECT_EQ(variables::trainable_variables().size(), 190u);
  EXPECT_EQ(total(variables::trainable_variables()), 23'817'352);
}

TEST(InceptionV3, WithGammaHasTheParametersOfTorchvision) {
  Graph graph;
  const auto opened = graph.as_default();
  apply(no_images(299), {}, {.batch_norm_scale = true});
  EXPECT_EQ(total(variables::trainable_variables()), 27'161'264);
}

// tf_slim's shapes, [N, H, W, C] there.
TEST(InceptionV3, HasTfSlimsEndPoints) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto net = apply(no_images(299));
  const std::vector<std::pair<std::string, Shape>> wanted = {
      {"Conv2d_1a_3x3", {0, 32, 149, 149}},
      {"Conv2d_2a_3x3", {0, 32, 147, 147}},
      {"Conv2d_2b_3x3", {0, 64, 147, 147}},
      {"MaxPool_3a_3x3", {0, 64, 73, 73}},
      {"Conv2d_3b_1x1", {0, 80, 73, 73}},
      {"Conv2d_4a_3x3", {0, 192, 71, 71}},
      {"MaxPool_5a_3x3", {0, 192, 35, 35}},
      {"Mixed_5b", {0, 256, 35, 35}},
      {"Mixed_5c", {0, 288, 35, 35}},
      {"Mixed_5d", {0, 288, 35, 35}},
      {"Mixed_6a", {0, 768, 17, 17}},
      {"Mixed_6b", {0, 768, 17, 17}},
      {"Mixed_6c", {0, 768, 17, 17}},
      {"Mixed_6d", {0, 768, 17, 17}},
      {"Mixed_6e", {0, 768, 17, 17}},
      {"Mixed_7a", {0, 1280, 8, 8}},
      {"Mixed_7b", {0, 2048, 8, 8}},
      {"Mixed_7c", {0, 2048, 8, 8}},
      {"AuxLogits", {0, 1000}},
      {"AvgPool_1a", {0, 2048, 1, 1}},
      {"PreLogits", {0, 2048, 1, 1}},
      {"Logits", {0, 1000}},
      {"Predictions", {0, 1000}},
  };
  ASSERT_EQ(net.end_points.size(), wanted.size());
  std::size_t i = 0;
  for (const auto& point : net.end_points) {
    EXPECT_EQ(point.name, wanted[i].first);
    EXPECT_EQ(point.value.sizes(), wanted[i].second) << point.name;
    ++i;
  }
  EXPECT_TRUE(net.output.is_same(net.end_points.at("Logits")));
}

TEST(InceptionV3, ASecondTowerSharesTheVariablesAndHasItsOwnUpdates) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto images = at::ones({2, 3, 107, 107});
  apply(images, thin());
  EXPECT_EQ(graph.update_ops().size(), 192u);
  const auto count = variables::global_variables().size();
  auto second = thin({.reuse = Reuse::kYes});
  apply(images, second);
  EXPECT_EQ(graph.update_ops().size(), 384u);
  EXPECT_EQ(variables::get_regularization_losses().size(), 98u);
  EXPECT_EQ(variables::global_variables().size(), count);
  second.mode = Mode::kEvaluation;
  apply(images, second);
  EXPECT_EQ(graph.update_ops().size(), 384u) << "evaluation moves no statistics";
  EXPECT_THROW(apply(images, thin()), Error) << "the names exist";
}

TEST(InceptionV3, WindowsShrinkForSmallImages) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto half = apply(no_images(150), thin({.scope = "half"}));
  EXPECT_EQ(half.end_points.at("Mixed_7c").size(2), 3);
  EXPECT_EQ(half.output.sizes(), (Shape{0, 5}));
  EXPECT_EQ(half.end_points.at("AuxLogits").sizes(), (Shape{0, 5}));
  EXPECT_EQ(variables::global_variables("half/AuxLogits/Conv2d_2a_1x1/weights").size(), 1u);
  const auto smallest = apply(no_images(75), thin({.create_aux_logits = false, .scope = "least"}));
  EXPECT_EQ(smallest.end_points.at("Mixed_7c").size(2), 1);
  EXPECT_EQ(smallest.output.sizes(), (Shape{0, 5}));
  const auto wide = apply(at::zeros({0, 3, 107, 200}), thin({.scope = "wide"}));
  EXPECT_EQ(variables::global_variables("wide/AuxLogits/Conv2d_2a_1x2/weights").size(), 1u);
  EXPECT_EQ(wide.output.sizes(), (Shape{0, 5}));
}

TEST(InceptionV3, LargerImagesNeedPoolingOrKeepPositions) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto images = no_images(448);
  expect_refused([&] { apply(images, thin()); }, "set global_pool");
  const auto positions = apply(images, thin({.spatial_squeeze = false, .scope = "positions"}));
  EXPECT_EQ(positions.output.sizes(), (Shape{0, 5, 3, 3}));
  const auto pooled = apply(images, thin({.scope = "pooled", .global_pool = true}));
  EXPECT_EQ(pooled.output.sizes(), (Shape{0, 5}));
  EXPECT_EQ(pooled.end_points.at("AuxLogits").sizes(), (Shape{0, 5}));
  EXPECT_TRUE(pooled.end_points.contains("global_pool"));
}

TEST(InceptionV3, DepthMultiplierScalesChannels) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto half = apply(no_images(107), {.depth_multiplier = 0.5, .scope = "half"});
  const auto twice = apply(no_images(107), {.depth_multiplier = 2.0, .scope = "twice"});
  EXPECT_EQ(half.end_points.at("Conv2d_1a_3x3").size(1), 16);
  EXPECT_EQ(half.end_points.at("Mixed_7c").size(1), 1024);
  EXPECT_EQ(twice.end_points.at("Mixed_7c").size(1), 4096);
  const auto least = apply(no_images(107), {.depth_multiplier = 0.01, .scope = "least"});
  EXPECT_EQ(least.end_points.at("Conv2d_1a_3x3").size(1), 16);
  EXPECT_EQ(least.end_points.at("Mixed_5b").size(1), 4 * 16);
}

TEST(InceptionV3, LogitsAreOptionalAndMayKeepTheirPosition) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto features = apply(no_images(107), thin({.num_classes = 0, .scope = "features"}));
  EXPECT_EQ(features.output.sizes(), (Shape{0, 12, 1, 1}));
  EXPECT_FALSE(features.end_points.contains("Logits"));
  EXPECT_FALSE(features.end_points.contains("AuxLogits"));
  const auto kept = apply(no_images(107), thin({.spatial_squeeze = false}));
  EXPECT_EQ(kept.output.sizes(), (Shape{0, 5, 1, 1}));
  EXPECT_EQ(kept.end_points.at("Predictions").sizes(), (Shape{0, 5, 1, 1}));
}

TEST(InceptionV3, PredictsProbabilitiesAndDropsOutInTrainingOnly) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto images = at::ones({4, 3, 75, 75});
  auto options = thin({.mode = Mode::kEvaluation, .create_aux_logits = false});
  const auto defaults = layers::arg_scope(inception_v3_arg_scope());
  const auto net = inception_v3(images, options);
  const auto sums = net.end_points.at("Predictions").sum(1);
  EXPECT_LT((sums - 1.0).abs().max().item<float>(), 1e-5F);
  EXPECT_TRUE(net.end_points.at("PreLogits").equal(net.end_points.at("AvgPool_1a")));
  options.mode = Mode::kTraining;
  options.reuse = Reuse::kYes;
  options.dropout_keep_prob = 1e-9;
  const auto dropped = inception_v3(images, options).end_points.at("PreLogits");
  EXPECT_EQ(dropped.abs().sum().item<float>(), 0.0F);
}

TEST(InceptionV3, TheBaseEndsAtTheGivenEndPoint) {
  const auto names = inception_v3_end_points();
  ASSERT_EQ(names.size(), 18u);
  const auto defaults = layers::arg_scope(inception_v3_arg_scope());
  for (std::size_t i = 0; i < names.size(); ++i) {
    Graph graph;
    const auto opened = graph.as_default();
    const auto net = inception_v3_base(
        no_images(299), {.final_endpoint = names[i], .min_depth = 1, .depth_multiplier = 1e-3});
    ASSERT_EQ(net.end_points.size(), i + 1);
    EXPECT_TRUE(net.output.is_same(net.end_points.at(names[i])));
  }
}

TEST(InceptionV3, TheBaseTakesSmallerImagesIfItEndsEarlier) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto net = inception_v3_base(no_images(3), {.final_endpoint = "Conv2d_1a_3x3"});
  EXPECT_EQ(net.output.sizes(), (Shape{0, 32, 1, 1}));
  expect_refused([&] { inception_v3_base(no_images(26), {.final_endpoint = "Mixed_5b"}); },
                 "must be 27 x 27 or larger");
}

TEST(InceptionV3, WithoutItsArgumentScopeHasBiases) {
  Graph graph;
  const auto opened = graph.as_default();
  inception_v3_base(no_images(3), {.final_endpoint = "Conv2d_1a_3x3"});
  EXPECT_EQ(variable_names(), (std::vector<std::string>{"InceptionV3/Conv2d_1a_3x3/weights",
                                                        "InceptionV3/Conv2d_1a_3x3/biases"}));
}

TEST(InceptionV3, StartsFromTruncatedNormalWeights) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto defaults = layers::arg_scope(inception_v3_arg_scope({.stddev = 0.2}));
  inception_v3_base(no_images(9), {.final_endpoint = "Conv2d_2b_3x3"});
  const auto weights =
      variables::global_variables("InceptionV3/Conv2d_2b_3x3/weights").at(0).read();
  EXPECT_LE(weights.abs().max().item<float>(), 0.4F);
  // That of a normal distribution truncated at two deviations is 0.88 of them.
  EXPECT_NEAR(weights.std().item<float>(), 0.88 * 0.2, 0.005);
}

TEST(InceptionV3, RefusesInvalidArguments) {
  Graph graph;
  const auto opened = graph.as_default();
  const auto images = no_images(299);
  expect_refused([&] { inception_v3(images, {.depth_multiplier = 0.0}); }, "depth_multiplier is 0");
  expect_refused([&] { inception_v3(images, {.depth_multiplier = -0.1}); },
                 "depth_multiplier is -0.1");
  expect_refused([&] { inception_v3(images, {.min_depth = 0}); }, "min_depth is 0");
  expect_refused([&] { inception_v3(images, {.num_classes = -1}); }, "num_classes is -1");
  expect_refused([&] { inception_v3(images, {.dropout_keep_prob = 0.0}); }, "keep_prob is 0");
  expect_refused([&] { inception_v3(no_images(106)); }, "must be 107 x 107 or larger");
  expect_refused([&] { inception_v3(no_images(74), {.create_aux_logits = false}); },
                 "must be 75 x 75 or larger");
  expect_refused(
      [&] {
        inception_v3(at::zeros({2, 1, 299, 299}));
      },
      "[2, 1, 299, 299]; expected [N, 3, height, width]");
  expect_refused([&] { inception_v3(at::zeros({3, 299, 299})); }, "expected [N, 3, height, width]");
  expect_refused([&] { inception_v3({}); }, "undefined");
  expect_refused([&] { inception_v3_base(images, {.final_endpoint = "Mixed_7d"}); },
                 "did you mean 'Mixed_");
  EXPECT_EQ(variables::global_variables().size(), 0u) << "refused before work starts";
}

}  // namespace
}  // namespace brigade::models
