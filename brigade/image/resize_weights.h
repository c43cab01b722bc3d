#pragma once

#include <cstdint>
#include <vector>

#include "brigade/image/resize.h"

namespace brigade::image::internal {

/// Resizing weights along one axis: output value i is the sum over k < taps of
/// `weights[i * taps + k]` times input value `starts[i] + k`, which is always in range. All methods
/// are separable, so resizing an image uses two of these.
struct AxisWeights {
  std::int64_t taps = 1;
  std::vector<std::int64_t> starts;
  std::vector<float> weights;
};

AxisWeights axis_weights(std::int64_t from, std::int64_t to, Interpolation interpolation);

}  // namespace brigade::image::internal
