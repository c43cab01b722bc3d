#include "brigade/image/crop.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::image {
namespace {

using base::str_cat;

/// In float, as TensorFlow does for pictures whose size it learns when it runs.
std::int64_t side_of_aspect(std::int64_t other_side, std::int64_t target, std::int64_t other_target,
                            std::int64_t most) {
  const float side = static_cast<float>(other_side * target) / static_cast<float>(other_target);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(side), 1, most);
}

}  // namespace

Window central_window(const Size& picture, double fraction) {
  if (!(fraction > 0 && fraction <= 1)) {
    throw Error(ErrorCode::kInvalidArgument,
                str_cat("central_window: the fraction is ", fraction, "; it must lie in (0, 1]"));
  }
  const auto margin = [fraction](std::int64_t side) {
    const auto length = static_cast<double>(side);
    return static_cast<std::int64_t>((length - length * fraction) / 2);
  };
  const std::int64_t top = margin(picture.height);
  const std::int64_t left = margin(picture.width);
  return {top, left, picture.height - 2 * top, picture.width - 2 * left};
}

Window central_window(const Size& picture, const Size& window) {
  const Window result{(picture.height - window.height) / 2, (picture.width - window.width) / 2,
                      window.height, window.width};
  check_window(result, picture, "central_window");
  return result;
}

Window window_of_aspect(const Size& picture, const Size& target) {
  internal::checked_values(picture, 1);
  internal::checked_values(target, 1);
  const Size size{side_of_aspect(picture.width, target.height, target.width, picture.height),
                  side_of_aspect(picture.height, target.width, target.height, picture.width)};
  return central_window(picture, size);
}

Image pad(const ImageView& image, std::int64_t top, std::int64_t left, const Size& whole) {
  check_window({top, left, image.height(), image.width()}, whole, "pad");
  Image result(whole, image.channels());
  for (std::int64_t y = 0; y < image.height(); ++y) {
    std::copy_n(image.row(y), image.row_values(), &result.at(top + y, left, 0));
  }
  return result;
}

Image crop_or_pad(const ImageView& image, const Size& size) {
  const Size kept{std::min(image.height(), size.height), std::min(image.width(), size.width)};
  const ImageView part = image.window(central_window(image.size(), kept));
  return pad(part, (size.height - kept.height) / 2, (size.width - kept.width) / 2, size);
}

}  // namespace brigade::image
