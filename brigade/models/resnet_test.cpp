#include "brigade/models/resnet.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/models/testing/pattern_weights.h"
#include "brigade/models/testing/variable_names.h"

namespace brigade::models {
namespace {

using variables::Mode;
using variables::Reuse;

at::Tensor images_of(std::int64_t side, std::int64_t count = 1) {
  return pattern_values("images", {count, 3, side, side});
}

struct Count {
  std::int64_t trainable = 0, all = 0;
};

/// The numbers of a network's parameters. All begin at 0, and there are no
/// images, which takes less time.
Count parameters_of(ResNetOptions options) {
  options.mode = Mode::kEvaluation;
  variables::Graph graph;
  const auto opened = graph.as_default();
  const auto zeros = [](const variables::VariableGetter& getter,
                        variables::GetVariableRequest request) {
    request.options.initializer = variables::zeros_initializer();
    return getter(request);
  };
  const auto scope = variables::variable_scope("net", {.custom_getter = zeros});
  resnet(at::zeros({0, 3, 32, 32}), options);
  Count count;
  for (const auto& variable : variables::trainable_variables()) count.trainable += variable.numel();
  for (const auto& variable : variables::global_variables()) count.all += variable.numel();
  return count;
}

/// A network that is small enough for tests.
ResNetOptions narrow(ResNetOptions options) {
  options.num_classes = 5;
  options.depth_multiplier = 1.0 / 16;
  return options;
}

/// Gives all variables values that depend on their names, so that networks of equal names are
/// equal, and moving statistics have an effect.
void set_pattern_weights() {
  for (const auto& variable : variables::global_variables())
    variable.assign(pattern_weights(variable.name(), variable.shape()));
}

ResNetResult pass_with_pattern_weights(const at::Tensor& images, ResNetOptions options) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  resnet(images, options);
  set_pattern_weights();
  options.reuse = Reuse::kYes;
  return resnet(images, options);
}

// The numbers are torchvision's and Keras's.
TEST(ResNet, HasAsManyParametersAsTheOriginals) {
  EXPECT_EQ(parameters_of({.depth = 18}).trainable, 11'689'512);
  EXPECT_EQ(parameters_of({.depth = 34}).trainable, 21'797'672);
  EXPECT_EQ(parameters_of({.depth = 50}).trainable, 25'557'032);
  EXPECT_EQ(parameters_of({.depth = 50, .version = ResNetVersion::kV1}).trainable, 25'557'032);
  EXPECT_EQ(parameters_of({.depth = 101}).trainable, 44'549'160);
  EXPECT_EQ(parameters_of({.depth = 152}).trainable, 60'192'808);
  EXPECT_EQ(parameters_of({.groups = 32, .width_per_group = 4}).trainable, 25'028'904);
  EXPECT_EQ(parameters_of({.width_per_group = 128}).trainable, 68'883'240);
  const Count keras = parameters_of({.depth = 50, .version = ResNetVersion::kKeras});
  EXPECT_EQ(keras.all, 25'636'712);
  EXPECT_EQ(keras.trainable, 25'583'592);
}

TEST(ResNet, NamesItsVariablesByBlockUnitAndLayer) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  resnet(images_of(32), narrow({.depth = 50, .mode = Mode::kEvaluation, .scope = "net"}));
  const auto names = variable_names();
  EXPECT_EQ(names.size(), 5u * 53 + 2);  // 53 convolutions
  const std::vector<std::string> first(names.begin(), names.begin() + 6);
  EXPECT_EQ(first, (std::vector<std::string>{
                       "net/conv1/weights", "net/conv1/BatchNorm/gamma", "net/conv1/BatchNorm/beta",
                       "net/conv1/BatchNorm/moving_mean", "net/conv1/BatchNorm/moving_variance",
                       "net/block1/unit_1/conv1/weights"}));
  const std::vector<std::string> last(names.end() - 3, names.end());
  EXPECT_EQ(last, (std::vector<std::string>{"net/block4/unit_3/conv3/BatchNorm/moving_variance",
                                            "net/logits/weights", "net/logits/biases"}));
  for (const char* name :
       {"net/block1/unit_1/shortcut/weights", "net/block3/unit_6/conv2/BatchNorm/gamma"}) {
    EXPECT_NE(std::ranges::find(names, name), names.end()) << name;
  }
}

TEST(ResNet, GivesItsEndPoints) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const auto result = resnet(images_of(64, 2), narrow({.depth = 18}));
  std::vector<std::string> names;
  for (const auto& point : result.end_points) names.push_back(point.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"conv1", "pool1", "block1/unit_1", "block1/unit_2", "block1",
                                      "block2/unit_1", "block2/unit_2", "block2", "block3/unit_1",
                                      "block3/unit_2", "block3", "block4/unit_1", "block4/unit_2",
                                      "block4", "global_pool", "logits", "predictions"}));
  const auto shape = [&](const char* name) { return result.end_points.at(name).sizes().vec(); };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shape("conv1"), (Shape{2, 4, 32, 32}));
  EXPECT_EQ(shape("pool1"), (Shape{2, 4, 16, 16}));
  EXPECT_EQ(shape("block1"), (Shape{2, 4, 16, 16}));
  EXPECT_EQ(shape("block2"), (Shape{2, 8, 8, 8}));
  EXPECT_EQ(shape("block3"), (Shape{2, 16, 4, 4}));
  EXPECT_EQ(shape("block4"), (Shape{2, 32, 2, 2}));
  EXPECT_EQ(shape("global_pool"), (Shape{2, 32}));
  EXPECT_EQ(result.logits.sizes(), (Shape{2, 5}));
  EXPECT_TRUE(at::allclose(result.end_points.at("predictions"), result.logits.softmax(1)));
}

TEST(ResNet, ImagesOfOddSizesArePaddedSymmetrically) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const auto result = resnet(images_of(75), narrow({.depth = 50}));
  EXPECT_EQ(result.end_points.at("pool1").size(2), 19);
  EXPECT_EQ(result.end_points.at("block4").size(2), 3);
}

struct DilationCase {
  int depth;
  ResNetVersion version;
};
class DilatedResNet : public ::testing::TestWithParam<DilationCase> {};

// Why dilation may replace a stride: among the denser features are those of the network as trained.
TEST_P(DilatedResNet, HasTheFeaturesOfStridesAmongItsOwn) {
  const auto [depth, version] = GetParam();
  ResNetOptions options = narrow({.depth = depth, .version = version, .mode = Mode::kEvaluation});
  const auto block4 = [&](std::int64_t output_stride) {
    options.output_stride = output_stride;
    return pass_with_pattern_weights(images_of(64), options).end_points.at("block4");
  };
  const at::Tensor coarse = block4(32);
  EXPECT_EQ(coarse.size(2), 2);
  for (const std::int64_t output_stride : {16, 8, 4}) {
    const std::int64_t step = 32 / output_stride;
    const at::Tensor dense = block4(output_stride);
    EXPECT_EQ(dense.size(3), 64 / output_stride);
    const at::Tensor same = dense.slice(2, 0, 64, step).slice(3, 0, 64, step);
    EXPECT_TRUE(at::allclose(same, coarse, 1e-4, 1e-4 * coarse.abs().max().item<double>()))
        << output_stride;
  }
}
INSTANTIATE_TEST_SUITE_P(Versions, DilatedResNet,
                         ::testing::Values(DilationCase{18, ResNetVersion::kV15},
                                           DilationCase{50, ResNetVersion::kV15},
                                           DilationCase{50, ResNetVersion::kV1},
                                           DilationCase{50, ResNetVersion::kKeras}));

TEST(ResNet, WithoutGlobalPoolingTheLogitsOfPositionsHaveTheMeanOfThePooled) {
  ResNetOptions options = narrow({.depth = 18, .mode = Mode::kEvaluation});
  const at::Tensor pooled = pass_with_pattern_weights(images_of(96), options).logits;
  options.global_pool = false;
  const at::Tensor everywhere = pass_with_pattern_weights(images_of(96), options).logits;
  EXPECT_EQ(everywhere.sizes(), (std::vector<std::int64_t>{1, 5, 3, 3}));
  EXPECT_TRUE(at::allclose(everywhere.mean({2, 3}), pooled, 1e-4, 1e-3));
}

TEST(ResNet, SmallImagesKeepTheirSizeInTheFirstLayers) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  ResNetOptions options = narrow({.depth = 18, .small_images = true, .scope = "a"});
  const auto result = resnet(images_of(32), options);
  EXPECT_FALSE(result.end_points.contains("pool1"));
  EXPECT_EQ(result.end_points.at("block1").size(2), 32);
  EXPECT_EQ(result.end_points.at("block4").size(2), 4);
  EXPECT_EQ(variables::global_variables("a/conv1/weights").at(0).shape(),
            (std::vector<std::int64_t>{4, 3, 3, 3}));
  options.output_stride = 2;
  options.scope = "b";
  EXPECT_EQ(resnet(images_of(32), options).end_points.at("block4").size(2), 16);
}

TEST(ResNet, WithZeroInitResidualItsUnitsBeginAsTheIdentity) {
  for (const int depth : {18, 50}) {
    variables::Graph graph;
    const auto opened = graph.as_default();
    const auto result =
        resnet(images_of(32, 2), narrow({.depth = depth, .zero_init_residual = true}));
    EXPECT_TRUE(
        at::equal(result.end_points.at("block2/unit_2"), result.end_points.at("block2/unit_1")));
    const auto other = resnet(images_of(32, 2), narrow({.depth = depth, .scope = "other"}));
    EXPECT_FALSE(
        at::equal(other.end_points.at("block2/unit_2"), other.end_points.at("block2/unit_1")));
  }
}

TEST(ResNet, BeginsWithTheOriginalsDistributions) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const auto value_of = [](const std::string& name) {
    return variables::global_variables(name).at(0).read();
  };
  ResNetOptions options{.depth = 50,
                        .num_classes = 10,
                        .depth_multiplier = 0.25,
                        .mode = Mode::kEvaluation,
                        .scope = "torch"};
  resnet(images_of(32), options);
  const double fan_out = 128 * 9;
  const at::Tensor torch = value_of("torch/block4/unit_1/conv2/weights");
  EXPECT_NEAR(torch.std().item<double>(), std::sqrt(2 / fan_out), 0.01 * std::sqrt(2 / fan_out));
  EXPECT_GT(torch.max().item<double>(), 3.5 * std::sqrt(2 / fan_out)) << "truncated, or uniform";
  const double limit = 1 / std::sqrt(512.0);
  for (const char* name : {"torch/logits/weights", "torch/logits/biases"}) {
    EXPECT_LE(value_of(name).abs().max().item<double>(), limit);
    EXPECT_GT(value_of(name).abs().max().item<double>(), 0.5 * limit);
  }
  options.version = ResNetVersion::kKeras;
  options.scope = "keras";
  resnet(images_of(32), options);
  const double glorot = std::sqrt(6.0 / (128 * 9 + 128 * 9));
  const double largest = value_of("keras/block4/unit_1/conv2/weights").abs().max().item<double>();
  EXPECT_LE(largest, glorot);
  EXPECT_GT(largest, 0.99 * glorot);
  EXPECT_EQ(value_of("keras/logits/biases").abs().max().item<double>(), 0.0);
  EXPECT_EQ(value_of("keras/conv1/biases").abs().max().item<double>(), 0.0);
}

TEST(ResNet, DropoutIsForTrainingOnly) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const auto pass = [&](double dropout, Mode mode) {
    return resnet(images_of(64, 2), narrow({.depth = 18,
                                            .dropout = dropout,
                                            .mode = mode,
                                            .reuse = Reuse::kAuto,
                                            .scope = "net"}))
        .logits;
  };
  EXPECT_TRUE(at::equal(pass(0.0, Mode::kTraining), pass(0.0, Mode::kTraining)));
  EXPECT_FALSE(at::equal(pass(0.5, Mode::kTraining), pass(0.0, Mode::kTraining)));
  EXPECT_TRUE(at::equal(pass(0.5, Mode::kEvaluation), pass(0.0, Mode::kEvaluation)));
}

TEST(ResNet, TheDecayOfBatchNormIsTheVersionsOrTheGivenOne) {
  const auto moved = [](ResNetVersion version, std::optional<double> decay) {
    variables::Graph graph;
    const auto opened = graph.as_default();
    resnet(images_of(32, 2), narrow({.version = version, .batch_norm_decay = decay}));
    graph.run_update_ops();
    return variables::global_variables("conv1/BatchNorm/moving_mean").at(0).read();
  };
  const at::Tensor mean = moved(ResNetVersion::kV15, 0.0);
  EXPECT_TRUE(at::allclose(moved(ResNetVersion::kV15, std::nullopt), 0.1 * mean));
  const at::Tensor of_keras = moved(ResNetVersion::kKeras, 0.0);
  EXPECT_TRUE(at::allclose(moved(ResNetVersion::kKeras, std::nullopt), 0.01 * of_keras));
  EXPECT_GT(mean.abs().max().item<double>(), 0.0);
}

TEST(ResNet, TheEpsilonOfBatchNormIsTheVersionsOrTheGivenOne) {
  const auto logits = [](ResNetVersion version, std::optional<double> epsilon) {
    return pass_with_pattern_weights(
               images_of(32).to(at::kDouble),
               narrow(
                   {.version = version, .batch_norm_epsilon = epsilon, .mode = Mode::kEvaluation}))
        .logits;
  };
  const at::Tensor of_torch = logits(ResNetVersion::kV15, std::nullopt);
  const at::Tensor of_keras = logits(ResNetVersion::kKeras, std::nullopt);
  EXPECT_TRUE(at::equal(of_torch, logits(ResNetVersion::kV15, 1e-5)));
  EXPECT_TRUE(at::equal(of_keras, logits(ResNetVersion::kKeras, 1.001e-5)));
  EXPECT_FALSE(at::equal(of_keras, logits(ResNetVersion::kKeras, 1e-5)));
}

TEST(ResNet, ReuseAndScopeShareAndSeparateWeights) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const auto pass = [&](Reuse reuse, const std::string& scope) {
    return resnet(images_of(32, 2), narrow({.depth = 18, .reuse = reuse, .scope = scope})).logits;
  };
  const at::Tensor first = pass(Reuse::kInherit, "");
  const auto variables = variable_names().size();
  EXPECT_TRUE(at::equal(first, pass(Reuse::kYes, "")));
  EXPECT_EQ(variable_names().size(), variables);
  EXPECT_FALSE(at::equal(first, pass(Reuse::kInherit, "second")));
  EXPECT_EQ(variable_names().size(), 2 * variables);
}

TEST(ResNet, RefusesOptionsOutOfRange) {
  const auto message = [](const ResNetOptions& options) -> std::string {
    try {
      resnet(images_of(32), options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "nothing was thrown";
  };
  const std::vector<std::pair<ResNetOptions, std::string>> cases = {
      {{.depth = 20}, "depth is 20; the networks have the depths 18, 34, 50, 101, 152"},
      {{.depth = 18, .version = ResNetVersion::kKeras},
       "depth is 18; Keras's networks have the depths 50, 101, 152"},
      {{.num_classes = 0}, "num_classes is 0"},
      {{.output_stride = 2}, "output_stride is 2; expected one of 4, 8, 16, 32"},
      {{.output_stride = 16, .small_images = true}, "expected one of 1, 2, 4, 8"},
      {{.dropout = 1.0}, "dropout is 1"},
      {{.groups = 0}, "groups is 0"},
      {{.width_per_group = 0}, "width_per_group is 0"},
      {{.depth = 18, .groups = 2}, "depth 18 has no bottleneck units"},
      {{.depth_multiplier = 0.0}, "depth_multiplier is 0"}};
  for (const auto& [options, text] : cases) {
    EXPECT_NE(message(options).find(text), std::string::npos) << text << ": " << message(options);
  }
}

}  // namespace
}  // namespace brigade::models
