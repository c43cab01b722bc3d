#include "brigade/input/image_transform.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "brigade/base/testing/error_code.h"
#include "brigade/image/crop.h"
#include "brigade/image/testing/golden.h"
#include "brigade/input/image_tensor.h"

namespace brigade::input {
namespace {

using base::testing::code_of;
using image::testing::smooth_image;

at::Tensor apply(const ImageTransform& transform, const image::Image& image,
                 std::uint64_t seed = 1) {
  base::CounterRng rng(seed);
  const concurrency::CancelToken cancel;
  data::ElementContext context{.epoch = 0, .index = 0, .rng = rng, .cancel = cancel};
  return transform.apply(image.view(), context);
}

TEST(ImageTransform, EvaluationIsTheCenterOfTheResizedImage) {
  const image::Image wide = smooth_image({40, 60}, 3);
  const at::Tensor got = apply(evaluation_transform({.resize = 20, .crop = {16, 12}}), wide);
  const image::Image resized = image::resize_to_uint8(wide.view(), {20, 30});
  const at::Tensor wanted =
      input::normalize(resized.view().window({.top = 2, .left = 9, .height = 16, .width = 12}),
                       {.mean = image::kImageNetMean, .deviation = image::kImageNetDeviation});
  EXPECT_TRUE(at::equal(got, wanted));
  const image::Image high = smooth_image({61, 41}, 3);
  EXPECT_EQ(apply(evaluation_transform({.resize = 0, .crop = {32, 32}}), high).sizes(),
            (at::IntArrayRef{3, 32, 32}));
}

TEST(ImageTransform, AnImageOfTheRightSizeIsOnlyNormalized) {
  const image::Image image = smooth_image({8, 8}, 3);
  const auto transform = evaluation_transform(
      {.resize = 8, .crop = {8, 8}, .mean = {0.5, 0.5, 0.5, 0}, .deviation = {0.5, 0.5, 0.5, 1}});
  const at::Tensor wanted = to_tensor(image.view()).to(at::kFloat) / 127.5 - 1;
  EXPECT_TRUE(at::allclose(apply(transform, image), wanted, 0, 1e-6));
}

TEST(ImageTransform, TrainingDependsOnTheGeneratorAlone) {
  const image::Image image = smooth_image({40, 60}, 3);
  const auto transform = training_transform({.size = {16, 24}});
  const at::Tensor first = apply(transform, image, 1);
  EXPECT_EQ(first.sizes(), (at::IntArrayRef{3, 16, 24}));
  EXPECT_TRUE(at::equal(first, apply(transform, image, 1)));
  EXPECT_FALSE(at::equal(first, apply(transform, image, 2)));
}

TEST(ImageTransform, AWholeWindowIsResizedAndMirrored) {
  const image::Image image = smooth_image({40, 60}, 3);
  const image::ResizedWindowOptions whole{
      .min_area = 1, .max_area = 1, .min_aspect = 1.5, .max_aspect = 1.5};
  const auto plain =
      apply(training_transform({.size = {20, 30}, .window = whole, .flip_probability = 0}), image);
  const auto mirrored =
      apply(training_transform({.size = {20, 30}, .window = whole, .flip_probability = 1}), image);
  const image::Image resized = image::resize_to_uint8(image.view(), {20, 30});
  const at::Tensor wanted = input::normalize(
      resized.view(), {.mean = image::kImageNetMean, .deviation = image::kImageNetDeviation});
  EXPECT_TRUE(at::equal(plain, wanted));
  EXPECT_TRUE(at::equal(mirrored, plain.flip(2)));
}

TEST(ImageTransform, AugmentsTheResizedBytes) {
  const image::Image image = smooth_image({40, 60}, 3);
  const auto black = [](const image::ImageView& view, base::CounterRng&) {
    return image::Image(view.size(), view.channels());
  };
  const TrainingTransformOptions options{.size = {4, 4},
                                         .augment = black,
                                         .augment_name = "black",
                                         .mean = {0.5, 0.5, 0.5, 0},
                                         .deviation = {0.5, 0.5, 0.5, 1}};
  const auto transform = training_transform(options);
  EXPECT_TRUE(apply(transform, image).eq(-1).all().item<bool>());
  EXPECT_NE(transform.name.find("black"), std::string::npos);
}

TEST(ImageTransform, NamesSayEveryOption) {
  EXPECT_NE(training_transform().name, training_transform({.flip_probability = 0}).name);
  EXPECT_NE(training_transform().name, training_transform({.window = {.min_area = 0.5}}).name);
  EXPECT_NE(training_transform().name, training_transform({.mean = {0, 0, 0, 0}}).name);
  EXPECT_NE(evaluation_transform().name, evaluation_transform({.resize = 232}).name);
}

TEST(ImageTransform, RefusesWhatCannotWork) {
  const auto refused = [](const auto& make) {
    EXPECT_EQ(code_of([&] { make(); }), ErrorCode::kInvalidArgument);
  };
  refused([] { training_transform({.size = {0, 4}}); });
  refused([] { training_transform({.flip_probability = 1.5}); });
  refused([] { training_transform({.window = {.min_area = 0}}); });
  refused([] {
    training_transform({.augment = [](const image::ImageView& view, base::CounterRng&) {
      return image::Image(view);
    }});
  });
  refused([] { evaluation_transform({.resize = 200}); });
  refused([] { evaluation_transform({.crop = {0, 3}}); });
}

}  // namespace
}  // namespace brigade::input
