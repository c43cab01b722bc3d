#include "brigade/input/image_normalizer.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include <array>

#include "brigade/base/testing/error_code.h"
#include "brigade/image/testing/golden.h"
#include "brigade/input/image_tensor.h"
#include "brigade/input/image_transform.h"

namespace brigade::input {
namespace {

using base::testing::code_of;
using image::testing::smooth_image;

const image::NormalizeOptions kImageNet{.mean = image::kImageNetMean,
                                        .deviation = image::kImageNetDeviation};

TEST(ImageNormalizer, HasTheBitsOfNormalize) {
  const image::Image first = smooth_image({9, 7}, 3);
  const image::Image second = image::flip_horizontally(first.view());
  for (const image::Layout layout : {image::Layout::kChannelsFirst, image::Layout::kChannelsLast}) {
    image::NormalizeOptions options = kImageNet;
    options.layout = layout;
    const at::Tensor bytes =
        at::stack({to_tensor(first.view(), layout), to_tensor(second.view(), layout)});
    const at::Tensor wanted = at::stack(
        {input::normalize(first.view(), options), input::normalize(second.view(), options)});
    EXPECT_TRUE(at::equal(ImageNormalizer(options)(bytes), wanted));
  }
}

// The same random window and mirroring, with the normalization on either side.
TEST(ImageNormalizer, CompletesTransformsThatGiveBytes) {
  const image::Image image = smooth_image({40, 60}, 3);
  const auto apply = [&](const ImageTransform& transform, std::uint64_t seed) {
    base::CounterRng rng(seed);
    const concurrency::CancelToken cancel;
    data::ElementContext context{.epoch = 0, .index = 0, .rng = rng, .cancel = cancel};
    return transform.apply(image.view(), context);
  };
  const auto on_host = training_transform({.size = {16, 24}});
  const auto bytes = training_transform({.size = {16, 24}, .output = ImageOutput::kBytes});
  for (const std::uint64_t seed : {1, 2, 3, 4}) {  // mirrored and not
    const at::Tensor sent = apply(bytes, seed);
    EXPECT_EQ(sent.scalar_type(), at::kByte);
    EXPECT_TRUE(at::equal(ImageNormalizer(kImageNet)(sent), apply(on_host, seed)));
  }
  const at::Tensor center = apply(
      evaluation_transform({.resize = 32, .crop = {16, 16}, .output = ImageOutput::kBytes}), 1);
  EXPECT_TRUE(at::equal(ImageNormalizer(kImageNet)(center),
                        apply(evaluation_transform({.resize = 32, .crop = {16, 16}}), 1)));
  EXPECT_NE(bytes.name, on_host.name) << "positions of one are not those of the other";
}

TEST(ImageNormalizer, UnitRangeHasTheBitsOfADivisionForEachByte) {
  const at::Tensor bytes = at::arange(256, at::kByte).view({1, 1, 16, 16});
  const at::Tensor floats = ImageNormalizer::unit_range()(bytes).view(-1);
  for (int byte = 0; byte < 256; ++byte)
    EXPECT_EQ(floats[byte].item<float>(), static_cast<float>(byte) / 255.0F) << byte;
}

TEST(ImageNormalizer, RefusesWhatIsNoImage) {
  const ImageNormalizer normalizer(kImageNet);
  EXPECT_EQ(code_of([&] { normalizer(at::ones({3, 4, 4})); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { normalizer(at::ones({4, 4}, at::kByte)); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] {
              normalizer(at::ones({7, 4, 4}, at::kByte));
            }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([] {
              ImageNormalizer({.deviation = {1, 0, 1, 1}});
            }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([] { ImageNormalizer({.flip = image::Flip::kHorizontal}); }),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::input
