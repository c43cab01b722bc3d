#include "brigade/image/augment.h"

#include <algorithm>
#include <cmath>

#include "brigade/base/error.h"
#include "brigade/image/color.h"
#include "brigade/image/crop.h"

namespace brigade::image {
namespace {

std::int64_t random_start(std::int64_t extent, std::int64_t window, base::CounterRng& rng) {
  return static_cast<std::int64_t>(
      rng.uniform_below(static_cast<std::uint64_t>(extent - window) + 1));
}

double between(double low, double high, base::CounterRng& rng) {
  return low + (high - low) * rng.uniform();
}

void check_options(const ResizedWindowOptions& options) {
  const auto& [min_area, max_area, min_aspect, max_aspect, attempts] = options;
  if (!(min_area > 0 && min_area <= max_area && max_area <= 1)) {
    refuse("random_resized_window: the area is from ", min_area, " to ", max_area,
           "; 0 < min_area <= max_area <= 1 must hold");
  }
  if (!(min_aspect > 0 && min_aspect <= max_aspect && std::isfinite(max_aspect))) {
    refuse("random_resized_window: the aspect is from ", min_aspect, " to ", max_aspect,
           "; 0 < min_aspect <= max_aspect must hold");
  }
  check_argument(attempts >= 1, "random_resized_window: attempts is ", attempts,
                 "; it must be 1 or more");
}

/// The largest centered window whose aspect is as close to the image's as allowed.
Window fallback_window(const Size& image_size, const ResizedWindowOptions& options) {
  const auto height = static_cast<double>(image_size.height);
  const auto width = static_cast<double>(image_size.width);
  const double aspect = std::clamp(width / height, options.min_aspect, options.max_aspect);
  const auto fitting = [](double side, std::int64_t most) {
    return std::clamp<std::int64_t>(std::llround(side), 1, most);
  };
  return central_window(image_size, Size{fitting(width / aspect, image_size.height),
                                         fitting(height * aspect, image_size.width)});
}

void check_jitter(const ImageView& image, const ColorJitter& jitter) {
  const auto& [brightness, contrast, saturation, hue] = jitter;
  if (!(brightness >= 0 && contrast >= 0 && saturation >= 0 && hue >= 0 && hue <= 0.5)) {
    refuse("color_jitter: brightness ", brightness, ", contrast ", contrast, ", saturation ",
           saturation, ", hue ", hue, "; all must be 0 or more, and hue at most 0.5");
  }
  check_argument(image.channels() == 3 || (saturation == 0 && hue == 0),
                 "color_jitter: an image with ", image.channels(),
                 " channels has no saturation and hue to change");
}

float factor_within(double amount, base::CounterRng& rng) {
  return static_cast<float>(between(std::max(0.0, 1 - amount), 1 + amount, rng));
}

}  // namespace

Window random_window(const Size& image_size, const Size& window, base::CounterRng& rng) {
  check_window({0, 0, window.height, window.width}, image_size, "random_window");
  const std::int64_t top = random_start(image_size.height, window.height, rng);
  const std::int64_t left = random_start(image_size.width, window.width, rng);
  return {top, left, window.height, window.width};
}

Window random_resized_window(const Size& image_size, const ResizedWindowOptions& options,
                             base::CounterRng& rng) {
  check_options(options);
  internal::checked_values(image_size, 1);
  const double whole =
      static_cast<double>(image_size.height) * static_cast<double>(image_size.width);
  for (int attempt = 0; attempt < options.attempts; ++attempt) {
    const double area = whole * between(options.min_area, options.max_area, rng);
    const double aspect =
        std::exp(between(std::log(options.min_aspect), std::log(options.max_aspect), rng));
    const Size size{std::llround(std::sqrt(area / aspect)), std::llround(std::sqrt(area * aspect))};
    if (size.height < 1 || size.width < 1) continue;
    if (size.height > image_size.height || size.width > image_size.width) continue;
    return random_window(image_size, size, rng);
  }
  return fallback_window(image_size, options);
}

Flip random_flip(base::CounterRng& rng, double probability) {
  if (!(probability >= 0 && probability <= 1)) {
    refuse("random_flip: the probability is ", probability, "; it must be in [0, 1]");
  }
  return rng.uniform() < probability ? Flip::kHorizontal : Flip::kNone;
}

Image flip_horizontally(const ImageView& image) {
  Image result(image.size(), image.channels());
  for (std::int64_t y = 0; y < image.height(); ++y) {
    for (std::int64_t x = 0; x < image.width(); ++x) {
      std::copy_n(&image.at(y, image.width() - 1 - x, 0), image.channels(), &result.at(y, x, 0));
    }
  }
  return result;
}

Image flip_vertically(const ImageView& image) {
  Image result(image.size(), image.channels());
  for (std::int64_t y = 0; y < image.height(); ++y) {
    std::copy_n(image.row(image.height() - 1 - y), image.row_values(), result.row(y));
  }
  return result;
}

Image color_jitter(const ImageView& image, const ColorJitter& jitter, base::CounterRng& rng) {
  check_jitter(image, jitter);
  const auto delta = static_cast<float>(between(-jitter.brightness, jitter.brightness, rng));
  const float contrast = factor_within(jitter.contrast, rng);
  const float saturation = factor_within(jitter.saturation, rng);
  const auto turn = static_cast<float>(between(-jitter.hue, jitter.hue, rng));
  FloatImage changed = to_float(image);
  if (jitter.brightness > 0) changed = adjust_brightness(std::move(changed), delta);
  if (jitter.contrast > 0) changed = adjust_contrast(std::move(changed), contrast);
  if (jitter.saturation > 0) changed = adjust_saturation(std::move(changed), saturation);
  if (jitter.hue > 0) changed = adjust_hue(std::move(changed), turn);
  return to_uint8(changed);
}

}  // namespace brigade::image
