#include "brigade/image/random_erasing.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/image/augment.h"

namespace brigade::image {
namespace {

using base::str_cat;

[[noreturn]] void refuse_erasing(const std::string& what) {
  refuse("random_erasing: " + what);
}

void check_erasing(const RandomErasingOptions& o) {
  if (!(o.probability >= 0 && o.probability <= 1))
    refuse_erasing(str_cat("the probability is ", o.probability, "; it must be in [0, 1]"));
  if (!(o.min_area > 0 && o.min_area <= o.max_area && o.max_area <= 1))
    refuse_erasing(str_cat("the area is from ", o.min_area, " to ", o.max_area,
                           "; 0 < min_area <= max_area <= 1 must hold"));
  if (!(o.min_aspect > 0 && o.min_aspect <= o.max_aspect && std::isfinite(o.max_aspect)))
    refuse_erasing(str_cat("the aspect is from ", o.min_aspect, " to ", o.max_aspect,
                           "; 0 < min_aspect <= max_aspect must hold"));
  if (o.attempts < 1) refuse_erasing(str_cat("attempts is ", o.attempts, "; it must be 1 or more"));
}

double drawn_between(double low, double high, base::CounterRng& rng) {
  return low + (high - low) * rng.uniform();
}

template <class T>
BasicImage<T> erased(BasicImage<T> image, const RandomErasingOptions& options,
                     base::CounterRng& rng) {
  const std::optional<Window> window = random_erasing_window(image.size(), options, rng);
  if (!window) return image;
  for (std::int64_t y = window->top; y < window->top + window->height; ++y) {
    for (std::int64_t x = window->left; x < window->left + window->width; ++x) {
      for (std::int64_t c = 0; c < image.channels(); ++c) {
        image.at(y, x, c) = internal::erased_value<T>(options, c, rng);
      }
    }
  }
  return image;
}

}  // namespace

namespace internal {

template <>
float erased_value<float>(const RandomErasingOptions& options, std::int64_t channel,
                          base::CounterRng& rng) {
  if (options.fill_with_noise) return static_cast<float>(rng.normal());
  return options.fill[static_cast<std::size_t>(channel)];
}

template <>
std::uint8_t erased_value<std::uint8_t>(const RandomErasingOptions& options, std::int64_t channel,
                                        base::CounterRng& rng) {
  if (options.fill_with_noise) return static_cast<std::uint8_t>(rng.uniform_below(256));
  const float fill = options.fill[static_cast<std::size_t>(channel)];
  return static_cast<std::uint8_t>(std::lround(std::clamp(fill, 0.0F, 255.0F)));
}

}  // namespace internal

std::optional<Window> random_erasing_window(const Size& image_size,
                                            const RandomErasingOptions& options,
                                            base::CounterRng& rng) {
  check_erasing(options);
  internal::checked_values(image_size, 1);
  if (rng.uniform() >= options.probability) return std::nullopt;
  const double whole =
      static_cast<double>(image_size.height) * static_cast<double>(image_size.width);
  for (int attempt = 0; attempt < options.attempts; ++attempt) {
    const double area = whole * drawn_between(options.min_area, options.max_area, rng);
    const double aspect =
        std::exp(drawn_between(std::log(options.min_aspect), std::log(options.max_aspect), rng));
    const Size size{std::llround(std::sqrt(area * aspect)), std::llround(std::sqrt(area / aspect))};
    const bool is_inside = size.height >= 1 && size.width >= 1 && size.height < image_size.height &&
                           size.width < image_size.width;
    if (is_inside) return random_window(image_size, size, rng);
  }
  return std::nullopt;
}

Image random_erasing(Image image, const RandomErasingOptions& options, base::CounterRng& rng) {
  return erased(std::move(image), options, rng);
}

FloatImage random_erasing(FloatImage image, const RandomErasingOptions& options,
                          base::CounterRng& rng) {
  return erased(std::move(image), options, rng);
}

}  // namespace brigade::image
