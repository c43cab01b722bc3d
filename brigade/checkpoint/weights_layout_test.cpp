#include "brigade/checkpoint/weights_layout.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "brigade/checkpoint/testing/sample.h"

namespace brigade::checkpoint {
namespace {

using testing::caught;

at::Tensor numbered(at::IntArrayRef shape) {
  std::int64_t count = 1;
  for (const std::int64_t each : shape) count *= each;
  return at::arange(count, at::kFloat).view(shape);
}

// In slim/assign_from_checkpoint_test.cpp whole models give TensorFlow's outputs with these
// weights.
TEST(WeightsLayout, TransposesMatricesOfDenseLayersAlsoSquareOnes) {
  for (const char* name :
       {"fc/weights", "dense/kernel", "weights", "net.kernel",
        "layer/kernel/.ATTRIBUTES/VARIABLE_VALUE", "fc/weights/ExponentialMovingAverage"}) {
    const at::Tensor square = numbered({3, 3}), wide = numbered({2, 5});
    EXPECT_TRUE(at::equal(to_torch_layout(square, name, "fc/weights"), square.t())) << name;
    EXPECT_TRUE(at::equal(to_torch_layout(wide, name, "fc/weights"), wide.t())) << name;
  }
}

TEST(WeightsLayout, MovesTheWindowOfConvolutionsAfterTheChannels) {
  const at::Tensor image = numbered({3, 2, 4, 5});  // height, width, in, out
  const at::Tensor converted = to_torch_layout(image, "conv/weights", "conv/weights");
  EXPECT_EQ(converted.sizes(), at::IntArrayRef({5, 4, 3, 2}));
  EXPECT_EQ(converted[4][3][2][1].item<float>(), image[2][1][3][4].item<float>());
  EXPECT_EQ(to_torch_layout(numbered({1, 1, 4, 5}), "s/pointwise_weights", "").sizes(),
            at::IntArrayRef({5, 4, 1, 1}));
  EXPECT_EQ(to_torch_layout(numbered({3, 4, 5}), "conv1d/kernel", "").sizes(),
            at::IntArrayRef({5, 4, 3}));
  EXPECT_EQ(to_torch_layout(numbered({2, 3, 4, 5, 6}), "conv3d/kernel", "").sizes(),
            at::IntArrayRef({6, 5, 2, 3, 4}));
}

TEST(WeightsLayout, DepthwiseConvolutionsHaveAGroupForEachChannel) {
  const at::Tensor value = numbered({3, 2, 4, 2});  // height, width, channels, multiplier
  for (const auto& [stored, variable] : {std::pair("d/depthwise_weights", "d/depthwise_weights"),
                                         {"d/depthwise_kernel", "other"},
                                         {"d/kernel", "d/depthwise_weights"}}) {
    const at::Tensor converted = to_torch_layout(value, stored, variable);
    ASSERT_EQ(converted.sizes(), at::IntArrayRef({8, 1, 3, 2})) << stored;
    // The outputs of channel 3 are 6 and 7.
    EXPECT_EQ(converted[7][0][2][1].item<float>(), value[2][1][3][1].item<float>());
    EXPECT_EQ(converted[1][0][0][0].item<float>(), value[0][0][0][1].item<float>());
  }
}

TEST(WeightsLayout, LeavesEverythingElseAsItIs) {
  for (const char* name : {"fc/biases", "bn/gamma", "table/embeddings", "fc/weights/Momentum",
                           "fc/my_weights", "global_step"}) {
    const at::Tensor value = numbered({3, 3});
    EXPECT_TRUE(to_torch_layout(value, name, "fc/weights").is_same(value)) << name;
  }
  const at::Tensor vector = numbered({3});
  EXPECT_TRUE(to_torch_layout(vector, "norm/weights", "").is_same(vector));
}

TEST(WeightsLayout, ReordersTheInputsAfterAFlattenedImage) {
  constexpr std::int64_t kHeight = 2, kWidth = 3, kChannels = 4, kOutputs = 5;
  const at::Tensor value = numbered({kHeight * kWidth * kChannels, kOutputs});
  const at::Tensor converted =
      to_torch_layout(value, "fc/weights", "fc/weights",
                      FlattenedImage{.channels = kChannels, .height = kHeight, .width = kWidth});
  ASSERT_EQ(converted.sizes(), at::IntArrayRef({kOutputs, kHeight * kWidth * kChannels}));
  for (std::int64_t y = 0; y < kHeight; ++y) {
    for (std::int64_t x = 0; x < kWidth; ++x) {
      for (std::int64_t c = 0; c < kChannels; ++c) {
        EXPECT_EQ(converted[3][(c * kHeight + y) * kWidth + x].item<float>(),
                  value[(y * kWidth + x) * kChannels + c][3].item<float>());
      }
    }
  }
}

TEST(WeightsLayout, RefusesAFlattenedImageThatDoesNotFit) {
  const auto refused = [](const at::Tensor& value, const char* stored, FlattenedImage image) {
    const auto error = caught([&] { to_torch_layout(value, stored, "fc/weights", image); });
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
    EXPECT_NE(error.message.find("fc/weights"), std::string::npos) << error.message;
  };
  refused(numbered({24, 5}), "fc/weights", {.channels = 4, .height = 2, .width = 2});
  refused(numbered({24, 5}), "fc/weights", {.channels = -4, .height = -2, .width = 3});
  refused(numbered({24, 5}), "fc/weights",
          {.channels = 1L << 40, .height = 1L << 40, .width = 1L << 40});
  refused(numbered({24, 5}), "fc/embeddings", {.channels = 4, .height = 2, .width = 3});
  refused(numbered({2, 3, 4, 5}), "fc/weights", {.channels = 4, .height = 2, .width = 3});
}

}  // namespace
}  // namespace brigade::checkpoint
