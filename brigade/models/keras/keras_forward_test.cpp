#include "brigade/models/keras/keras_forward.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/relu.h>
#include <gtest/gtest.h>

#include <functional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/layers/v1/tf_layers.h"
#include "brigade/models/keras/sequential.h"
#include "brigade/models/testing/variable_names.h"

namespace brigade::models {
namespace {

using layers::Padding;
using variables::Mode;

Conv2D same_conv(std::int64_t filters, std::int64_t size, std::int64_t strides = 1) {
  return {.filters = filters, .kernel_size = size, .strides = strides, .padding = Padding::kSame};
}

/// A residual block whose shortcut is a convolution, and three parallel branches.
Sequential branched_net(SequentialOptions options = {}) {
  Conv2D first = same_conv(4, 3);
  first.use_bias = false;
  const Residual residual{.layers = {same_conv(8, 3, 2), BatchNormalization{}, ReLU{},
                                     same_conv(8, 3), BatchNormalization{}},
                          .shortcut = {same_conv(8, 1, 2)}};
  const MaxPooling2D pool{.pool_size = 3, .strides = 1, .padding = Padding::kSame};
  return Sequential({first, residual, ReLU{},
                     Branches{.branches = {{same_conv(4, 1)}, {pool, same_conv(5, 1)}, {}}},
                     GlobalAveragePooling2D{}, Dense{.units = 10}},
                    std::move(options));
}

// The names and numbers are those of the same model of Keras's functional API, on (8, 8, 3).
TEST(ResidualAndBranches, HaveTheNamesOfKerasVariables) {
  const Sequential net = branched_net();
  variables::Graph graph;
  const auto opened = graph.as_default();
  EXPECT_EQ(net(at::rand({2, 3, 8, 8}), Mode::kTraining).sizes(),
            (std::vector<std::int64_t>{2, 10}));
  EXPECT_EQ(variable_names(), (std::vector<std::string>{"conv2d/kernel",
                                                        "conv2d_1/kernel",
                                                        "conv2d_1/bias",
                                                        "batch_normalization/gamma",
                                                        "batch_normalization/beta",
                                                        "batch_normalization/moving_mean",
                                                        "batch_normalization/moving_variance",
                                                        "conv2d_2/kernel",
                                                        "conv2d_2/bias",
                                                        "batch_normalization_1/gamma",
                                                        "batch_normalization_1/beta",
                                                        "batch_normalization_1/moving_mean",
                                                        "batch_normalization_1/moving_variance",
                                                        "conv2d_3/kernel",
                                                        "conv2d_3/bias",
                                                        "conv2d_4/kernel",
                                                        "conv2d_4/bias",
                                                        "conv2d_5/kernel",
                                                        "conv2d_5/bias",
                                                        "dense/kernel",
                                                        "dense/bias"}));
  EXPECT_EQ(net.names(), (std::vector<std::string>{"conv2d", "add", "re_lu_1", "concatenate",
                                                   "global_average_pooling2d", "dense"}));
}

/// A table with one space between columns, and shapes as 4x8x8.
std::string compact(std::string table) {
  table = std::regex_replace(table, std::regex(R"(\(None, ([0-9, ]*)\))"), "$1");
  table = std::regex_replace(table, std::regex(R"(, (?=[0-9]))"), "x");
  return std::regex_replace(table, std::regex(R"((\S) +)"), "$1 ");
}

TEST(ResidualAndBranches, AreInTheSummaryWithTheirLayers) {
  const std::string text = compact(branched_net({.input_shape = {{3, 8, 8}}}).summary());
  // FLOPs: 2 * 8 * 8 * 4 * 9 * 3 of the first convolution, and so on; 45,140 together.
  for (const char* part :
       {"\n conv2d (Conv2D) 4x8x8 108 13824\n", "\n   conv2d_1 (Conv2D) 8x4x4 296 9216\n",
        "\n   conv2d_3 (Conv2D) 8x4x4 40 1024\n", "\n add (Add) 8x4x4 0 0\n",
        "\n concatenate (Concatenate) 17x4x4 0 0\n",
        "\n global_average_pooling2d (GlobalAveragePooling2D) 17 0 0\n",
        "Total params: 1353\nTrainable params: 1321\nNon-trainable params: 32\n"
        "FLOPs of an example: 45140 "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(ResidualAndBranches, ComputeTheSumAndTheConcatenation) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const at::Tensor x = at::rand({2, 3, 5, 5}) - 0.5;
  const auto conv = [&](const char* name) {
    return layers::v1::conv2d(
        x, 3, 3, {.padding = Padding::kSame, .name = name, .reuse = variables::Reuse::kYes});
  };
  const Sequential sum({Residual{.layers = {same_conv(3, 3)}, .activation = "relu"}});
  const at::Tensor added = sum(x, Mode::kTraining);
  EXPECT_TRUE(at::allclose(added, at::relu(conv("conv2d") + x)));
  EXPECT_LT((conv("conv2d") + x).min().item<double>(), 0.0) << "relu makes no difference";

  Conv2D second = same_conv(3, 3);
  second.name = "second";
  const Sequential parallel({Branches{.branches = {{second}, {}}}});
  const at::Tensor both = parallel(x, Mode::kTraining);
  EXPECT_TRUE(at::allclose(both, at::cat({conv("second"), x}, 1)));
  const Sequential rows({Branches{.branches = {{}, {}}, .axis = 2}});
  EXPECT_EQ(rows(x, Mode::kTraining).sizes(), (std::vector<std::int64_t>{2, 3, 10, 5}));
  EXPECT_EQ(rows.output_shape({3, 5, 5}), (ExampleShape{3, 10, 5}));
}

TEST(ResidualAndBranches, PassTheModeToTheirLayersAndNest) {
  const Sequential net({Residual{.layers = {Branches{.branches = {{Dropout{.rate = 0.9}}}}}}});
  variables::Graph graph;
  const auto opened = graph.as_default();
  const at::Tensor x = at::rand({8, 16}) + 1;
  EXPECT_TRUE(at::equal(net(x, Mode::kEvaluation), x + x));
  EXPECT_FALSE(at::equal(net(x, Mode::kTraining), x + x));
}

TEST(ResidualAndBranches, ConvolutionAndPoolingInsideAreFusedToo) {
  const Conv2D conv{
      .filters = 4, .kernel_size = 3, .padding = Padding::kSame, .activation = "relu"};
  const Sequential inside({Branches{.branches = {{conv, MaxPooling2D{}}}}});
  const Sequential outside({conv, MaxPooling2D{}});
  variables::Graph graph;
  const auto opened = graph.as_default();
  const at::Tensor x = at::rand({3, 2, 20, 20}) - 0.5;
  const at::Tensor expected = outside(x, Mode::kTraining);
  const auto reuse =
      variables::variable_scope(variables::get_variable_scope(), {.reuse = variables::Reuse::kYes});
  EXPECT_TRUE(at::equal(inside(x, Mode::kTraining), expected));
}

TEST(GlobalPooling, IsOverAllPositions) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const at::Tensor x = at::rand({2, 3, 4, 5});
  const auto result = [&](const Layer& layer) { return Sequential({layer})(x, Mode::kTraining); };
  EXPECT_TRUE(at::allclose(result(GlobalAveragePooling2D{}), x.flatten(2).mean(2)));
  EXPECT_TRUE(at::equal(result(GlobalMaxPooling2D{}), std::get<0>(x.flatten(2).max(2))));
  const std::vector<std::int64_t> kept = {2, 3, 1, 1};
  EXPECT_EQ(result(GlobalAveragePooling2D{.keepdims = true}).sizes(), kept);
  EXPECT_EQ(result(GlobalMaxPooling2D{.keepdims = true}).sizes(), kept);
  const Sequential net({GlobalMaxPooling2D{}, Dense{.units = 2}});
  EXPECT_EQ(net.names()[0], "global_max_pooling2d");
  EXPECT_EQ(net.output_shape({3, 4, 5}), ExampleShape{2});
  EXPECT_EQ(net.flops({3, 4, 5}), 2 * 3 * 2);
}

TEST(Flops, CountEachGroupOfAConvolutionAndEachRowOfADenseLayer) {
  const Sequential groups({Conv2D{.filters = 6, .kernel_size = 3, .groups = 2}});
  EXPECT_EQ(groups.flops({4, 5, 5}), 2 * (3 * 3 * 6) * (9 * 2));
  const Sequential rows({Dense{.units = 3}});
  EXPECT_EQ(rows.flops({7, 5}), 2 * 7 * 5 * 3);
}

TEST(ResidualAndBranches, RefuseWhatDoesNotFitTogether) {
  const SequentialOptions image{.input_shape = {{3, 6, 6}}};
  const std::vector<std::pair<std::function<void()>, std::string>> cases = {
      {[&] { Sequential({Residual{}}, image); }, "Layer add: it has no layers"},
      {[&] { Sequential({Residual{.layers = {same_conv(4, 3)}}}, image); },
       "Layer add: its layers give (None, 4, 6, 6) and its shortcut (None, 3, 6, 6)"},
      {[&] {
         Sequential({Residual{.layers = {same_conv(3, 3), same_conv(0, 1)}}}, image);
       },
       "Layer conv2d_1: filters is 0"},
      {[&] { Sequential({Branches{}}, image); }, "Layer concatenate: it has no branches"},
      {[&] {
         Sequential({Branches{.branches = {{}, {MaxPooling2D{}}}}}, image);
       },
       "branch 0 gives (None, 3, 6, 6) and branch 1 (None, 3, 3, 3)"},
      {[&] {
         Sequential({Branches{.branches = {{}, {Flatten{}}}}}, image);
       },
       "branch 1 (None, 108)"},
      {[&] { Sequential({Branches{.branches = {{}}, .axis = 4}}, image); }, "axis is 4"},
      {[&] { Sequential({Branches{.branches = {{}}, .axis = 0}}, image); }, "axis is 0"},
      {[&] {
         Sequential({Flatten{}, GlobalMaxPooling2D{}}, image);
       },
       "Layer global_max_pooling2d: its input is (None, 108) and must be images"},
      {[] {
         Sequential({Dense{.units = 1, .name = "a"},
                     Residual{.layers = {Dense{.units = 1, .name = "a"}}}});
       },
       "Two layers are called 'a'"},
      // Without an input shape, when the model runs: libtorch would broadcast the sum.
      {[] {
         Sequential({Residual{.layers = {Conv2D{.filters = 1, .kernel_size = 1}}}})(
             at::rand({2, 3, 4, 4}), Mode::kTraining);
       },
       "Layer add: its layers give (None, 1, 4, 4)"},
      {[] {
         Sequential({GlobalAveragePooling2D{}})(at::rand({2, 3}), Mode::kTraining);
       },
       "Layer global_average_pooling2d"},
  };
  variables::Graph graph;
  const auto opened = graph.as_default();
  for (const auto& [call, part] : cases) {
    try {
      call();
      ADD_FAILURE() << "nothing was thrown: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << part << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace brigade::models
