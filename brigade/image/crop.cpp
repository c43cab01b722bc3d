#include "brigade/image/crop.h"

#include <algorithm>

#include "brigade/base/error.h"

namespace brigade::image {
namespace {

/// In float, as TensorFlow does for images whose size is known only at run time.
std::int64_t side_of_aspect(std::int64_t other_side, std::int64_t target, std::int64_t other_target,
                            std::int64_t most) {
  const float side = static_cast<float>(other_side * target) / static_cast<float>(other_target);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(side), 1, most);
}

}  // namespace

Window central_window(const Size& image_size, double fraction) {
  if (!(fraction > 0 && fraction <= 1)) {
    refuse("central_window: the fraction is ", fraction, "; it must be in (0, 1]");
  }
  const auto margin = [fraction](std::int64_t side) {
    const auto length = static_cast<double>(side);
    return static_cast<std::int64_t>((length - length * fraction) / 2);
  };
  const std::int64_t top = margin(image_size.height);
  const std::int64_t left = margin(image_size.width);
  return {top, left, image_size.height - 2 * top, image_size.width - 2 * left};
}

Window central_window(const Size& image_size, const Size& window) {
  const Window result{(image_size.height - window.height) / 2,
                      (image_size.width - window.width) / 2, window.height, window.width};
  check_window(result, image_size, "central_window");
  return result;
}

Window window_of_aspect(const Size& image_size, const Size& target) {
  internal::checked_values(image_size, 1);
  internal::checked_values(target, 1);
  const Size size{side_of_aspect(image_size.width, target.height, target.width, image_size.height),
                  side_of_aspect(image_size.height, target.width, target.height, image_size.width)};
  return central_window(image_size, size);
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
