#include "brigade/image/augment_operations.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "brigade/base/error.h"
#include "brigade/image/testing/golden.h"

namespace brigade::image {
namespace {

using testing::augmentation_golden;
using testing::smooth_image;

AugmentOperation operation_named(const std::string& name) {
  for (const AugmentOperation operation : kAugmentOperations) {
    if (to_string(operation) == name) return operation;
  }
  throw Error(ErrorCode::kInvalidArgument, "no operation " + name);
}

AffineOptions affine_options_of(const nlohmann::json& recorded) {
  AffineOptions options{.interpolation =
                            interpolation_of(recorded.at("interpolation").get<std::string>())};
  for (std::size_t c = 0; c < recorded.at("fill").size(); ++c)
    options.fill[c] = static_cast<std::uint8_t>(recorded.at("fill")[c].get<double>());
  return options;
}

/// The results of a recorded case: ours and torchvision's.
struct Compared {
  explicit Compared(const nlohmann::json& recorded)
      : name(nlohmann::json({recorded.at("image"), recorded.at("operation"),
                             recorded.at("magnitude"), recorded.at("interpolation")})
                 .dump()),
        theirs(testing::image_of<std::uint8_t>(recorded.at("result"))),
        ours(augmented(
            testing::image_of<std::uint8_t>(augmentation_golden("images").at(recorded.at("image"))),
            {operation_named(recorded.at("operation")), recorded.at("magnitude")},
            affine_options_of(recorded))) {}
  std::string name;
  Image theirs;
  Image ours;
};

TEST(AugmentOperations, EqualTorchvision) {
  std::set<std::string> operations;
  for (const auto& recorded : augmentation_golden("cases")) {
    if (recorded.at("interpolation") == "bilinear") continue;
    const Compared compared(recorded);
    ASSERT_EQ(compared.ours.size(), compared.theirs.size()) << compared.name;
    EXPECT_EQ(compared.ours.values(), compared.theirs.values()) << compared.name;
    operations.insert(recorded.at("operation"));
  }
  EXPECT_EQ(operations.size(), kAugmentOperations.size());
}

TEST(AugmentOperations, EqualTorchvisionBilinearWithinOne) {
  int compared_cases = 0;
  for (const auto& recorded : augmentation_golden("cases")) {
    if (recorded.at("interpolation") != "bilinear") continue;
    const Compared compared(recorded);
    EXPECT_LE(testing::largest_difference(compared.ours.values(), compared.theirs.values()), 1)
        << compared.name;
    ++compared_cases;
  }
  EXPECT_GT(compared_cases, 20);
}

TEST(AugmentOperations, FactorsOfOneChangeNothing) {
  const Image photo = smooth_image({9, 8}, 3);
  EXPECT_EQ(enhance_brightness(photo, 1), photo);
  EXPECT_EQ(enhance_color(photo, 1), photo);
  EXPECT_EQ(enhance_contrast(photo, 1), photo);
  EXPECT_EQ(enhance_sharpness(photo, 1), photo);
  EXPECT_EQ(posterize(photo, 8), photo);
  EXPECT_EQ(solarize(photo, 256), photo);
}

TEST(AugmentOperations, FactorsOfZeroLeaveNothing) {
  const Image photo = smooth_image({9, 8}, 3);
  EXPECT_EQ(enhance_brightness(photo, 0), Image(photo.size(), 3));
  const Image gray = enhance_color(photo, 0);
  for (std::int64_t i = 0; i < 72; ++i) EXPECT_EQ(gray.row(0)[3 * i], gray.row(0)[3 * i + 2]);
  const Image mean = enhance_contrast(photo, 0);
  EXPECT_EQ(std::set<int>(mean.values().begin(), mean.values().end()).size(), 1U);
  EXPECT_EQ(posterize(photo, 0), Image(photo.size(), 3));
}

TEST(AugmentOperations, SolarizingAllTwiceGivesTheImage) {
  const Image photo = smooth_image({9, 8}, 3);
  EXPECT_EQ(solarize(solarize(photo, 0), 0), photo);
}

TEST(AugmentOperations, AutocontrastStretchesEachChannel) {
  const Image image({1, 3}, 2, {10, 100, 20, 102, 30, 104});
  EXPECT_EQ(autocontrast(image), Image({1, 3}, 2, {0, 0, 127, 127, 255, 255}));
}

TEST(AugmentOperations, EqualizeMakesValuesAboutEquallyFrequent) {
  Image image({64, 64}, 1);  // values 100 to 115, each 256 times
  for (std::int64_t i = 0; i < 64 * 64; ++i)
    image.row(0)[i] = static_cast<std::uint8_t>(100 + i % 16);
  const Image equalized = equalize(image);
  for (int value = 0; value < 16; ++value) EXPECT_NEAR(equalized.row(0)[value], value * 17, 1);
}

TEST(AugmentOperations, RefuseWhatTheyCannotDo) {
  const Image photo = smooth_image({3, 3}, 3);
  EXPECT_THROW(enhance_brightness(photo, -0.1), Error);
  EXPECT_THROW(enhance_sharpness(ImageView(), 1), Error);
  EXPECT_THROW(enhance_color(Image({2, 2}, 4), 1), Error);
  EXPECT_THROW(enhance_contrast(Image({2, 2}, 2), 1), Error);
  EXPECT_THROW(posterize(photo, 9), Error);
  EXPECT_THROW(posterize(photo, -1), Error);
  EXPECT_THROW(autocontrast(ImageView()), Error);
}

}  // namespace
}  // namespace brigade::image
