#include "brigade/input/image_tensor.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/image/testing/golden.h"

namespace brigade::input {
namespace {

using image::Layout;
using image::testing::smooth_image;
using image::testing::values_of;

template <class T>
at::Tensor tensor_of(const nlohmann::json& array) {
  return at::tensor(values_of<T>(array));
}

TEST(ImageTensor, HasEitherLayout) {
  const image::Image image = smooth_image({4, 5}, 3);
  const at::Tensor first = to_tensor(image);
  const at::Tensor last = to_tensor(image, Layout::kChannelsLast);
  EXPECT_EQ(first.sizes(), (at::IntArrayRef{3, 4, 5}));
  EXPECT_TRUE(first.is_contiguous());
  EXPECT_EQ(last[1][2][2].item<int>(), image.at(1, 2, 2));
  EXPECT_TRUE(at::equal(first.permute({1, 2, 0}), last));
}

TEST(ImageTensor, NormalizesInOnePass) {
  const image::Image image = smooth_image({4, 5}, 3);
  const at::Tensor tensor =
      input::normalize(image, {.mean = {0.5F, 0.5F, 0.5F, 0}, .deviation = {2, 2, 2, 1}});
  const at::Tensor expected = (to_tensor(image).to(at::kFloat) / 255 - 0.5) / 2;
  EXPECT_TRUE(at::allclose(tensor, expected));
  EXPECT_EQ(input::normalize(image, {.layout = Layout::kChannelsLast}).sizes(),
            (at::IntArrayRef{4, 5, 3}));
}

TEST(ImageTensor, DecodesFiles) {
  const std::string file = image::testing::golden_file("png", "rgb");
  const at::Tensor tensor = decode_to_tensor(file, {.channels = 1}, Layout::kChannelsLast);
  EXPECT_EQ(tensor.sizes(), (at::IntArrayRef{45, 61, 1}));
  EXPECT_EQ(decode_to_tensor(file).sizes(), (at::IntArrayRef{3, 45, 61}));
}

TEST(ImageTensor, ResizesEachPlane) {
  const image::Image image = smooth_image({20, 30}, 3);
  const auto resized = image::resize(image, {7, 9});
  const at::Tensor bytes = to_tensor(image).unsqueeze(0);
  const at::Tensor small = resize_images(bytes, {7, 9});
  ASSERT_EQ(small.sizes(), (at::IntArrayRef{1, 3, 7, 9}));
  EXPECT_FLOAT_EQ(small[0][2][3][4].item<float>(), resized.at(3, 4, 2));
  EXPECT_TRUE(at::equal(resize_images(bytes.to(at::kFloat), {7, 9}), small));
  EXPECT_THROW(resize_images(bytes.to(at::kLong), {7, 9}), Error);
  EXPECT_THROW(resize_images(bytes, {0, 9}), Error);
  EXPECT_THROW(resize_images(at::arange(4), {2, 2}), Error);
}

TEST(ConvertImageDtype, MatchesTensorFlow) {
  const auto table = image::testing::golden("convert");
  const at::Tensor bytes = at::arange(256, at::kByte);
  EXPECT_TRUE(at::equal(convert_image_dtype(bytes, at::kFloat),
                        tensor_of<float>(table.at("bytes to floats"))));
  EXPECT_TRUE(at::equal(convert_image_dtype(bytes, at::kShort),
                        tensor_of<std::int16_t>(table.at("bytes to int16"))));
  EXPECT_TRUE(at::equal(convert_image_dtype(bytes, at::kInt),
                        tensor_of<std::int32_t>(table.at("bytes to int32"))));
  EXPECT_TRUE(at::equal(convert_image_dtype(tensor_of<float>(table.at("floats")), at::kByte),
                        tensor_of<std::uint8_t>(table.at("floats to bytes"))));
  EXPECT_TRUE(at::equal(convert_image_dtype(tensor_of<std::int16_t>(table.at("int16")), at::kByte),
                        tensor_of<std::uint8_t>(table.at("int16 to bytes"))));
}

TEST(ConvertImageDtype, LeavesFloatsUnchangedAndWarnsOnce) {
  int warnings = 0;
  base::set_log_sink([&](base::LogLevel, std::string_view) { ++warnings; });
  const at::Tensor floats = at::ones({2}) * 200;
  EXPECT_TRUE(at::equal(convert_image_dtype(floats, at::kFloat), floats));
  EXPECT_EQ(convert_image_dtype(floats, at::kDouble).scalar_type(), at::kDouble);
  base::set_log_sink({});
  EXPECT_EQ(warnings, 1);
}

TEST(ConvertImageDtype, RefusesUnsupportedDtypes) {
  EXPECT_THROW(convert_image_dtype(at::arange(3), at::kFloat), Error);
  EXPECT_THROW(convert_image_dtype(at::ones({2}), at::kBool), Error);
}

}  // namespace
}  // namespace brigade::input
