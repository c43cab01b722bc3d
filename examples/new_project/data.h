#pragma once

#include <brigade/brigade.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <tuple>

/// One example: a point of the plane, and which of two spirals it is of.
struct SpiralPoint {
  using Batch = struct SpiralBatch;
  at::Tensor position;     // [2]
  std::int64_t label = 0;  // numbers become a tensor in the batch
  static constexpr auto fields = std::tuple{&SpiralPoint::position, &SpiralPoint::label};
};

/// Several of them: from the fields follow batching, splitting among replicas and copies to
/// devices.
struct SpiralBatch {
  at::Tensor positions;  // [N, 2]
  at::Tensor labels;     // [N]
  static constexpr auto fields = std::tuple{&SpiralBatch::positions, &SpiralBatch::labels};
};

/// `count` points of the two spirals with some noise; other points for another `seed`.
/// Replace it by your own: read files in the function, or begin with bg::from_csv,
/// bg::image_dataset_from_directory, bg::from_safetensors or bg::mnist.
inline auto spirals(std::int64_t count, std::uint64_t seed) {
  const auto point = [seed](std::int64_t i) {  // the example with this index
    std::mt19937_64 random(seed + static_cast<std::uint64_t>(i));
    std::normal_distribution<float> noise(0.0F, 0.05F);
    const std::int64_t label = i % 2;
    const float turn = std::uniform_real_distribution<float>(0.25F, 1.5F)(random);
    const float angle = 6.2831853F * turn + 3.1415927F * static_cast<float>(label);
    return SpiralPoint{.position = at::tensor({turn * std::cos(angle) + noise(random),
                                               turn * std::sin(angle) + noise(random)}),
                       .label = label};
  };
  return brigade::from_indexed<SpiralPoint>(count, point, "spirals");
}
