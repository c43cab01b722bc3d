#include "brigade/layers/sliding_window.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <string>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::layers {
namespace {

// 0, 3, 6, 2, ... less 3, row by row.
at::Tensor image(std::int64_t height, std::int64_t width) {
  return (at::arange(height * width) * 3 % 7 - 3).to(at::kFloat).view({1, 1, height, width});
}
at::Tensor kernel(Size2d size) {
  return (at::arange(size.height * size.width) * 2 % 5 - 1)
      .to(at::kFloat)
      .view({1, 1, size.height, size.width});
}

void expect_values(const at::Tensor& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.numel(), static_cast<std::int64_t>(wanted.size())) << found.sizes();
  const auto difference = found.to(at::kDouble).flatten() - torch::tensor(wanted, at::kDouble);
  EXPECT_LT(difference.abs().max().item<double>(), 1e-5) << found;
}

// Everything below that is written out in numbers was given by TensorFlow 2.21 for the same images
// and kernels under padding SAME.
struct Case {
  std::int64_t height, width;
  SlidingWindow window;
  std::vector<double> convolution, largest, mean;
};

std::vector<Case> cases() {
  return {
      {5,
       4,
       {.size = {3, 2}, .stride = 2},
       {-3, 14, -9, -13, 12, 9},
       {2, 3, 3, 2, 3, 2},
       {-0.75, 0.0, 0.333333, -0.666667, 0.25, -0.75}},
      {6,
       6,
       {.size = 3, .stride = 2},
       {7, 6, 0, -6, 7, -1, -7, -11, -3},
       {3, 3, 3, 2, 3, 3, 3, 2, 1},
       {-0.666667, 0.666667, 0.5, -0.444444, -0.666667, 0.333333, 0.5, -0.5, -1.25}},
      {5,
       5,
       {.size = 2},
       {-3, 6, -13, 3, 7, 0, 2, -3, 6, -12, 3, 5, 0, 2, -3, 6, -13, 3, 5, -1, -4, 3, 3, -4, 1},
       {1, 3, 3, 3, 3, 2, 2, 1, 3, 3, 3, 3, 2, 2, -2, 3, 3, 3, 3, -1, 1, 0, 3, 3, -1},
       {-1.0, 0.25, -0.25, 1.0,   2.5, 0.0, -0.5, -1.0, 0.25, 0.0, 1.0, 0.5, 0.0,
        -0.5, -2.5, 0.25,  -0.25, 1.0, 0.5, -1.5, -1.0, -1.5, 1.5, 1.0, -1.0}},
      {7,
       5,
       {.size = {5, 3}, .stride = {3, 2}},
       {-2, 22, 5, -11, -24, -9, 7, 22, -3},
       {2, 3, 3, 3, 3, 3, 3, 3, 3},
       {-0.5, 0.111111, 0.333333, 0.1, -0.066667, 0.0, 0.0, -0.555556, -0.333333}},
      {4,
       6,
       {.size = {4, 1}, .stride = {1, 3}},
       {0, 8, -2, 4, 3, -12, 4, -3},
       {1, 3, 2, 3, 2, 3, 2, 0},
       {-1.333333, 0.666667, -0.5, -0.25, 0.333333, 0.0, 0.0, -1.5}},
  };
}

TEST(SlidingWindow, SamePaddingIsTensorFlows) {
  for (const auto& [height, width, window, convolution, largest, mean] : cases()) {
    SCOPED_TRACE(testing::Message() << height << " x " << width);
    const auto images = image(height, width);
    expect_values(convolve(images, kernel(window.size), {}, window), convolution);
    expect_values(max_pool(images, window), largest);
    expect_values(average_pool(images, window), mean);
  }
}

TEST(SlidingWindow, SamePaddingCountsTheHolesOfARate) {
  const SlidingWindow window{.size = 3, .rate = 2};
  expect_values(convolve(image(6, 6), kernel(3), {}, window),
                {-15, 4, -7, 1,  10, -7, 8,   -15, 6, -7, -1, 10, 2, 5,   -4, -1, -6, -2,
                 13,  2, 7,  -4, 4,  -6, -11, 4,   7, -2, 0,  -1, 9, -11, 2,  7,  1,  0});
}

TEST(SlidingWindow, OfAllImageSizesHasCeilOfSizeOverStrideRows) {
  for (std::int64_t size = 1; size <= 9; ++size) {
    for (std::int64_t window = 1; window <= 5; ++window) {
      for (std::int64_t stride = 1; stride <= 4; ++stride) {
        const SlidingWindow moving{.size = window, .stride = stride};
        const auto images = image(size, size);
        const auto rows = (size + stride - 1) / stride;
        const std::vector<std::int64_t> wanted = {1, 1, rows, rows};
        EXPECT_EQ(convolve(images, kernel(window), {}, moving).sizes(), wanted);
        EXPECT_EQ(max_pool(images, moving).sizes(), wanted) << size << window << stride;
        EXPECT_EQ(average_pool(images, moving).sizes(), wanted) << size << window << stride;
      }
    }
  }
}

TEST(SlidingWindow, ValidPaddingStaysInside) {
  const SlidingWindow window{.size = 2, .stride = 2, .padding = Padding::kValid};
  const auto images = image(5, 5);
  EXPECT_EQ(max_pool(images, window).sizes(), (std::vector<std::int64_t>{1, 1, 2, 2}));
  expect_values(max_pool(images, window), {1, 3, 3, 2});
}

// PyTorch 2's results of conv2d, max_pool2d and avg_pool2d, the last with count_include_pad False
// and True, for padding=((height - 1) // 2, (width - 1) // 2).
TEST(SlidingWindow, SymmetricPaddingIsPyTorchs) {
  const SlidingWindow square{.size = 3, .stride = 2, .padding = Padding::kSymmetric};
  const auto images = image(6, 6);
  expect_values(convolve(images, kernel(3), {}, square), {-3, 4, 6, -7, 7, 6, 1, -6, 7});
  expect_values(max_pool(images, square), {1, 3, 3, 2, 3, 3, 3, 2, 3});
  expect_values(average_pool(images, square),
                {-1.25, 0.333333, 0.5, -0.5, -0.666667, 0.666667, 0.5, -0.444444, -0.666667});
  auto counted = square;
  counted.count_padding = true;
  expect_values(average_pool(images, counted), {-0.555556, 0.222222, 0.333333, -0.333333, -0.666667,
                                                0.666667, 0.333333, -0.444444, -0.666667});
  auto dilated = square;
  dilated.rate = 2;
  expect_values(convolve(images, kernel(3), {}, dilated), {-15, -7, 10, 2, -4, -6, -11, 7, 0});
}

TEST(SlidingWindow, SymmetricPaddingOfAnEvenWindowRoundsDown) {
  const SlidingWindow window{.size = {2, 4}, .stride = {1, 2}, .padding = Padding::kSymmetric};
  const auto margins = margins_of(window, 5, 5);
  EXPECT_EQ(margins.top, 0);
  EXPECT_EQ(margins.left, 1);
  const auto images = image(5, 5);
  expect_values(convolve(images, kernel({2, 4}), {}, window), {-9, 14, -2, -6, 5, 2, 5, -4});
  expect_values(max_pool(images, window), {3, 3, 2, 3, 3, 3, 3, 3});
  expect_values(average_pool(images, window),
                {-0.666667, 0.625, -0.833333, -0.125, 0.166667, 0, 0, 0.125});
}

TEST(SlidingWindow, CountedPaddingIsAConvolutionWithZerosAround) {
  for (const auto padding : {Padding::kSame, Padding::kValid, Padding::kSymmetric}) {
    for (std::int64_t stride = 1; stride <= 3; ++stride) {
      for (std::int64_t size = 1; size <= 5; ++size) {
        const SlidingWindow window{
            .size = size, .stride = stride, .padding = padding, .count_padding = true};
        const auto images = image(7, 6);
        const auto mean = at::full({1, 1, size, size}, 1.0 / static_cast<double>(size * size));
        const auto wanted = convolve(images, mean, {}, window);
        EXPECT_TRUE(at::allclose(average_pool(images, window), wanted, 1e-5, 1e-6))
            << "window " << size << ", stride " << stride;
      }
    }
  }
}

TEST(SlidingWindow, KnowsTheSizeOfTheResult) {
  for (const auto padding : {Padding::kSame, Padding::kValid, Padding::kSymmetric}) {
    for (std::int64_t rate = 1; rate <= 2; ++rate) {
      for (std::int64_t size = 1; size <= 4; ++size) {
        const SlidingWindow window{.size = size, .stride = 2, .rate = rate, .padding = padding};
        const auto result = convolve(image(9, 8), kernel(size), {}, window);
        const auto known = output_size(window, 9, 8);
        EXPECT_EQ(known.height, result.size(2));
        EXPECT_EQ(known.width, result.size(3));
      }
    }
  }
  EXPECT_EQ(output_size({.size = 3, .padding = Padding::kValid}, 2, 3).height, 0);
}

TEST(SlidingWindow, OneChannelWithStridesOfChannelsLastStaysInPlanes) {
  const auto images = at::arange(2 * 36).to(at::kFloat).view({2, 6, 6, 1}).permute({0, 3, 1, 2});
  ASSERT_TRUE(images.is_contiguous());
  EXPECT_TRUE(convolve(images, kernel(3), {}, {.size = 3}).is_contiguous());
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

TEST(SlidingWindow, RefusesInvalidWindows) {
  const SlidingWindow valid{.size = 3, .padding = Padding::kValid};
  check_window("pool", image(3, 3), valid);
  expect_refused([&] { check_window("pool", {}, valid); }, "pool: images are an undefined");
  expect_refused([&] { check_window("pool", image(3, 3)[0], valid); }, "[1, 3, 3]");
  expect_refused([&] { check_window("pool", image(3, 2), valid); }, "3 x 3 does not fit");
  const SlidingWindow symmetric{.size = 5, .padding = Padding::kSymmetric};
  check_window("pool", image(1, 1), symmetric);
  check_window("pool", image(2, 2), {.size = 4, .padding = Padding::kSymmetric});
  expect_refused(
      [&] { check_window("pool", image(2, 1), {.size = 4, .padding = Padding::kSymmetric}); },
      "4 x 4 does not fit");
  expect_refused([&] { check_window("pool", image(3, 3), {.size = {0, 1}}); }, "0 x 1");
  expect_refused([&] { check_window("pool", image(3, 3), {.stride = -1}); }, "stride is -1");
  expect_refused([&] { check_window("pool", image(3, 3), {.rate = 0}); }, "rate is 0");
}

}  // namespace
}  // namespace brigade::layers
