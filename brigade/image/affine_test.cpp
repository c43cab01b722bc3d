#include "brigade/image/affine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "brigade/base/error.h"
#include "brigade/image/augment.h"
#include "brigade/image/testing/golden.h"

namespace brigade::image {
namespace {

using testing::smooth_image;

const Image kThree({3, 3}, 1, {1, 2, 3, 4, 5, 6, 7, 8, 9});

TEST(Affine, ShearsMoveRowsAndColumns) {
  // Rows are moved by 0.5, 1.5 and 2.5 pixels, rounded half up.
  EXPECT_EQ(shear_x(kThree, 0.9), Image({3, 3}, 1, {1, 2, 3, 5, 6, 0, 9, 0, 0}));
  EXPECT_EQ(shear_x(kThree, -0.9), Image({3, 3}, 1, {1, 2, 3, 0, 4, 5, 0, 0, 7}));
  EXPECT_EQ(shear_y(kThree, 0.9), Image({3, 3}, 1, {1, 5, 9, 4, 8, 0, 7, 0, 0}));
}

TEST(Affine, TranslationsAreInWholePixels) {
  for (const double pixels : {1.0, 1.9}) {
    EXPECT_EQ(translate_x(kThree, pixels), Image({3, 3}, 1, {0, 1, 2, 0, 4, 5, 0, 7, 8}));
    EXPECT_EQ(translate_x(kThree, -pixels), Image({3, 3}, 1, {2, 3, 0, 5, 6, 0, 8, 9, 0}));
    EXPECT_EQ(translate_y(kThree, pixels), Image({3, 3}, 1, {0, 0, 0, 1, 2, 3, 4, 5, 6}));
  }
  EXPECT_EQ(translate_x(kThree, 3), Image({3, 3}, 1));
  EXPECT_EQ(translate_y(kThree, 1e300), Image({3, 3}, 1)) << "far outside";
}

TEST(Affine, RotatesCounterclockwise) {
  EXPECT_EQ(rotate(kThree, 90), Image({3, 3}, 1, {3, 6, 9, 2, 5, 8, 1, 4, 7}));
  EXPECT_EQ(rotate(kThree, 180), Image({3, 3}, 1, {9, 8, 7, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(rotate(kThree, 270), rotate(kThree, -90));
  const Image photo = smooth_image({12, 9}, 3);
  EXPECT_EQ(rotate(photo, 180), flip_vertically(flip_horizontally(photo)));
}

TEST(Affine, NoChangeIsNoChange) {
  const Image photo = smooth_image({7, 10}, 3);
  for (const Interpolation interpolation : {Interpolation::kNearest, Interpolation::kBilinear}) {
    const AffineOptions options{.interpolation = interpolation};
    EXPECT_EQ(affine(photo, {}, options), photo);
    EXPECT_EQ(rotate(photo, 360, options), photo);
    EXPECT_EQ(shear_x(photo, 0, options), photo);
  }
}

TEST(Affine, BilinearBlendsWithTheFillColor) {
  const AffineOptions options{.interpolation = Interpolation::kBilinear, .fill = {100}};
  const Image row({1, 2}, 1, {0, 200});
  EXPECT_EQ(affine(row, {.x_offset = 0.25}, options), Image({1, 2}, 1, {50, 175}));
  EXPECT_EQ(affine(row, {.x_offset = 2}, options), Image({1, 2}, 1, {100, 100}));
  EXPECT_EQ(affine(row, {.x_offset = -7}, options), Image({1, 2}, 1, {100, 100}));
}

TEST(Affine, FillsEachChannelWithItsColor) {
  const Image moved = translate_x(Image({1, 2}, 3, {1, 2, 3, 4, 5, 6}), 1, {.fill = {7, 8, 9}});
  EXPECT_EQ(moved, Image({1, 2}, 3, {7, 8, 9, 1, 2, 3}));
}

TEST(Affine, ReadsAWindowOfAnImage) {
  const Image photo = smooth_image({9, 9}, 3);
  const ImageView window = photo.view().window({2, 3, 5, 4});
  EXPECT_EQ(rotate(window, 30), rotate(Image(window), 30));
}

TEST(Affine, RefusesOtherInterpolationsAndNumbers) {
  EXPECT_THROW(rotate(kThree, 1, {.interpolation = Interpolation::kBicubic}), Error);
  EXPECT_THROW(rotate(kThree, std::nan("")), Error);
  EXPECT_THROW(translate_x(kThree, std::numeric_limits<double>::infinity()), Error);
  EXPECT_THROW(rotate(ImageView(), 1), Error);
}

}  // namespace
}  // namespace brigade::image
