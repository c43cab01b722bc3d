#pragma once

#include <cstdint>
#include <vector>

#include "brigade/image/resize.h"

namespace brigade::image::internal {

/// How the values along one axis of a resized image come from those of the old one: value i is
/// the sum over k < taps of `weights[i * taps + k]` times old value `starts[i] + k`, all of which
/// exist. All of TensorFlow's ways are separable, so an image takes two of these.
struct AxisWeights {
  std::int64_t taps = 1;
  std::vector<std::int64_t> starts;
  std::vector<float> weights;
};

AxisWeights axis_weights(std::int64_t from, std::int64_t to, Interpolation interpolation);

}  // namespace brigade::image::internal
