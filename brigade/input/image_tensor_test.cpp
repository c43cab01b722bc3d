#include "brigade/input/image_tensor.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/image/testing/golden.h"
#include "brigade/input/synthetic.h"

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

using data::testing::expect_invalid_argument;

at::Tensor crop_with(std::uint64_t key, const at::Tensor& image, const CropOptions& options) {
  base::CounterRng rng(key);
  const concurrency::CancelToken cancel;
  data::ElementContext context{0, 0, rng, cancel};
  return random_crop(image, options, context);
}

TEST(RandomCrop, IsAWindowOfThePaddedImage) {
  const at::Tensor image = at::arange(2 * 4 * 5, at::kFloat).reshape({2, 4, 5}) + 1;
  const at::Tensor padded = at::constant_pad_nd(image, {2, 2, 2, 2});
  std::set<std::int64_t> positions;
  for (std::uint64_t key = 0; key < 400; ++key) {
    const at::Tensor crop = crop_with(key, image, {.height = 3, .padding = 2});
    ASSERT_EQ(crop.sizes(), at::IntArrayRef({2, 3, 5}));
    for (std::int64_t top = 0; top <= 5; ++top) {
      for (std::int64_t left = 0; left <= 4; ++left) {
        if (padded.narrow(1, top, 3).narrow(2, left, 5).equal(crop))
          positions.insert(top * 5 + left);
      }
    }
  }
  EXPECT_EQ(positions.size(), 6U * 5U);  // each position is reached, and nothing else
}

TEST(RandomCrop, OfTheWholeImageIsTheImage) {
  const at::Tensor image = at::arange(12, at::kDouble).reshape({3, 4});
  EXPECT_TRUE(crop_with(1, image, {}).equal(image));
  EXPECT_TRUE(crop_with(1, image.t(), {}).equal(image.t()));  // whatever the strides
}

TEST(RandomCrop, PaddingLargerThanTheImageMayMissIt) {
  const at::Tensor image = at::ones({2, 2});
  for (std::uint64_t key = 0; key < 100; ++key) {
    EXPECT_EQ(crop_with(key, image, {.padding = 9}).sizes(), at::IntArrayRef({2, 2}));
  }
}

TEST(RandomCrop, RefusesWhatDoesNotFit) {
  const at::Tensor image = at::ones({1, 4, 5});
  expect_invalid_argument([&] { crop_with(0, image, {.height = 7, .padding = 1}); },
                          "the height to crop is 7; the image with its padding has 6");
  expect_invalid_argument([&] { crop_with(0, image, {.width = -1}); }, "width to crop is -1");
  expect_invalid_argument([&] { crop_with(0, image, {.padding = -1}); }, "padding is -1");
  expect_invalid_argument([&] { crop_with(0, at::ones({4}), {}); }, "two dimensions");
}

TEST(RandomHorizontalFlip, FlipsWithTheGivenProbability) {
  const at::Tensor image = at::arange(6, at::kFloat).reshape({1, 2, 3});
  int flips = 0;
  for (std::uint64_t key = 0; key < 1000; ++key) {
    base::CounterRng rng(key);
    const concurrency::CancelToken cancel;
    data::ElementContext context{0, 0, rng, cancel};
    const at::Tensor result = random_horizontal_flip(image, context, 0.25);
    if (result.equal(image)) continue;
    EXPECT_TRUE(result.equal(image.flip({2})));
    ++flips;
  }
  EXPECT_NEAR(flips, 250, 60);
  base::CounterRng rng(0);
  const concurrency::CancelToken cancel;
  data::ElementContext context{0, 0, rng, cancel};
  expect_invalid_argument([&] { random_horizontal_flip(image, context, 1.5); }, "1.5");
}

at::Tensor erased_with(std::uint64_t key, const at::Tensor& image,
                       const image::RandomErasingOptions& options) {
  base::CounterRng rng(key);
  const concurrency::CancelToken cancel;
  data::ElementContext context{0, 0, rng, cancel};
  return random_erasing(image, options, context);
}

TEST(RandomErasing, OfATensorIsThatOfTheImage) {
  const image::Image photo({9, 12}, 3, std::vector<std::uint8_t>(9 * 12 * 3, 100));
  const at::Tensor tensor = to_tensor(photo);
  for (const bool noise : {false, true}) {
    for (std::uint64_t key = 0; key < 20; ++key) {
      const image::RandomErasingOptions options{.fill = {1, 2, 3}, .fill_with_noise = noise};
      base::CounterRng rng(key);
      const at::Tensor expected = to_tensor(image::random_erasing(photo, options, rng));
      EXPECT_TRUE(erased_with(key, tensor, options).equal(expected)) << key;
    }
  }
  EXPECT_TRUE(tensor.eq(100).all().item<bool>()) << "the image itself does not change";
}

TEST(RandomErasing, OfFloatsIsOnTheirScale) {
  const at::Tensor image = at::full({8, 8}, 0.5F);
  const at::Tensor erased = erased_with(1, image, {.probability = 1, .fill = {-1.5F}});
  const at::Tensor changed = erased.ne(image);
  EXPECT_TRUE(changed.any().item<bool>());
  EXPECT_TRUE(erased.masked_select(changed).eq(-1.5F).all().item<bool>());
}

TEST(RandomErasing, RefusesOtherTensors) {
  EXPECT_THROW(erased_with(1, at::ones({8, 8}, at::kDouble), {}), Error);
  EXPECT_THROW(erased_with(1, at::ones({5, 8, 8}), {}), Error);
  EXPECT_THROW(erased_with(1, at::ones({2, 3, 8, 8}), {}), Error);
  EXPECT_THROW(erased_with(1, at::ones({3, 8, 8}), {.probability = 2}), Error);
}

TEST(Augmentation, IsTheSameOnAnyNumberOfThreadsAndAfterAResume) {
  using Values = std::vector<float>;
  const auto pipeline = [](std::int64_t parallelism) {
    const auto augment = [](LabeledExample example, data::ElementContext& context) {
      example.features = random_crop(example.features, {.padding = 2}, context);
      example.features = random_horizontal_flip(example.features, context);
      return example;
    };
    return synthetic(60, {1, 6, 6}, 3)
        .shuffle(20)
        .map(augment, {.parallelism = parallelism})
        .repeat(2)
        .batch(16)
        .prefetch(2)
        .map([](const LabeledBatch& batch) {
          const auto* first = batch.features.const_data_ptr<float>();
          return Values(first, first + batch.features.numel());
        });
  };
  const auto expected = data::testing::epoch_of(pipeline(1));
  data::testing::expect_contract(pipeline(1), expected);
  data::testing::expect_contract(pipeline(3), expected);
}

}  // namespace
}  // namespace brigade::input
