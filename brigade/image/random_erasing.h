#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "brigade/base/random.h"
#include "brigade/image/image.h"

namespace brigade::image {

/// Defaults are torchvision's, and nearly the paper's.
struct RandomErasingOptions {
  /// The fraction of images in which something is erased. Published trainings on ImageNet use 0.1
  /// to 0.25.
  double probability = 0.5;
  /// Fraction of the image's area that is erased, uniform between the two.
  double min_area = 0.02;
  double max_area = 0.33;
  /// Height over width, uniform on a logarithmic scale.
  double min_aspect = 0.3;
  double max_aspect = 3.3;
  /// Maximum number of draws until a window fits into the image; after that nothing is erased.
  int attempts = 10;
  /// What is written, by channel, on the scale of the image's values: 0 to 255 for an `Image`, or
  /// for instance 0, the mean, for floats after `normalize`.
  std::array<float, 4> fill = {0, 0, 0, 0};
  /// Every value is drawn instead: from a normal distribution of mean 0 and deviation 1 for floats,
  /// uniformly from 0 to 255 for bytes. The paper found this best.
  bool fill_with_noise = false;
};

/// Where to erase, if anything. Always draws the probability, and then two numbers an attempt and
/// two for the position. Throws kInvalidArgument unless 0 <= probability <= 1, 0 < min_area <=
/// max_area <= 1, 0 < min_aspect <= max_aspect and attempts >= 1.
std::optional<Window> random_erasing_window(const Size& image_size,
                                            const RandomErasingOptions& options,
                                            base::CounterRng& rng);

namespace internal {
/// What is written to one value of a channel; T is float or std::uint8_t.
template <class T>
T erased_value(const RandomErasingOptions& options, std::int64_t channel, base::CounterRng& rng);
template <>
float erased_value<float>(const RandomErasingOptions& options, std::int64_t channel,
                          base::CounterRng& rng);
template <>
std::uint8_t erased_value<std::uint8_t>(const RandomErasingOptions& options, std::int64_t channel,
                                        base::CounterRng& rng);
}  // namespace internal

/// Random erasing (Zhong et al., 2017): a random window is overwritten, so that the network cannot
/// rely on one part of an object. Use it last: on bytes before `normalize`, on floats after it.
/// Values of `fill` are rounded and clamped to 0 to 255 for bytes. For tensors there is
/// `input::random_erasing`. Throws as `random_erasing_window`. torchvision: RandomErasing.
Image random_erasing(Image image, const RandomErasingOptions& options, base::CounterRng& rng);
FloatImage random_erasing(FloatImage image, const RandomErasingOptions& options,
                          base::CounterRng& rng);

}  // namespace brigade::image
