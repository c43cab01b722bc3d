#include "brigade/image/resize_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

namespace brigade::image::internal {
namespace {

// float everywhere, in TensorFlow's order of operations: near whole coordinates, a more precise
// result could select other pixels.

/// Weighted input values from `start` on, which may be outside the input.
struct Span {
  std::int64_t start = 0;
  std::vector<float> weights;
};

void divide_by_sum(std::vector<float>& weights) {
  float sum = 0;
  for (const float weight : weights) sum += weight;
  if (std::abs(sum) < 1000 * std::numeric_limits<float>::min()) return;
  for (float& weight : weights) weight /= sum;
}

Span nearest_span(std::int64_t from, float scale, std::int64_t index) {
  const float at = (static_cast<float>(index) + 0.5F) * scale;
  return {std::min(static_cast<std::int64_t>(std::floor(at)), from - 1), {1}};
}

Span bilinear_span(std::int64_t from, float scale, std::int64_t index) {
  const float at = (static_cast<float>(index) + 0.5F) * scale - 0.5F;
  const float below = std::floor(at);
  const auto lower = std::max<std::int64_t>(static_cast<std::int64_t>(below), 0);
  const auto upper = std::min(static_cast<std::int64_t>(std::ceil(at)), from - 1);
  if (lower == upper) return {lower, {1}};
  const float fraction = at - below;
  return {lower, {1 - fraction, fraction}};
}

/// TensorFlow takes the cubic's values from a table of 1024 steps.
float keys_cubic(float distance) {
  constexpr float kA = -0.5F;
  const float x = distance;
  if (x <= 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA;
}

Span bicubic_span(std::int64_t from, float scale, std::int64_t index) {
  constexpr float kSteps = 1024;
  const float at = (static_cast<float>(index) + 0.5F) * scale - 0.5F;
  const float below = std::floor(at);
  const float fraction = std::rint((at - below) * kSteps) / kSteps;
  const auto middle = static_cast<std::int64_t>(below);
  const float all[] = {keys_cubic(1 + fraction), keys_cubic(fraction), keys_cubic(1 - fraction),
                       keys_cubic(2 - fraction)};
  const std::int64_t begin = std::max<std::int64_t>(middle - 1, 0);
  const std::int64_t end = std::min(middle + 3, from);
  Span span{begin, {}};
  for (std::int64_t i = begin; i < end; ++i) span.weights.push_back(all[i - (middle - 1)]);
  divide_by_sum(span.weights);
  return span;
}

float covered(std::int64_t pixel, float begin, float end, float scale) {
  const auto low = static_cast<float>(pixel);
  if (low < begin) return low + 1 > end ? scale : low + 1 - begin;
  return low + 1 > end ? end - low : 1;
}

Span area_span(std::int64_t from, float scale, std::int64_t index) {
  const float begin = static_cast<float>(index) * scale;
  const float end = static_cast<float>(index + 1) * scale;
  const auto last = static_cast<std::int64_t>(std::ceil(end));
  Span span{static_cast<std::int64_t>(std::floor(begin)), {}};
  for (std::int64_t i = span.start; i < last; ++i) {
    const float weight = covered(i, begin, end, scale) / scale;
    if (i < from) {
      span.weights.push_back(weight);
    } else {
      span.weights.back() += weight;  // a rounding error beyond the last pixel
    }
  }
  return span;
}

float lanczos(float x, float radius) {
  constexpr float kPi = std::numbers::pi_v<float>;
  if (x > radius) return 0;
  if (x <= 1e-3F) return 1;
  return radius * std::sin(kPi * x) * std::sin(kPi * x / radius) / (kPi * kPi * x * x);
}

float gaussian(float x) {
  constexpr float kRadius = 1.5F;
  constexpr float kDeviation = kRadius / 3;
  return x >= kRadius ? 0 : std::exp(-x * x / (2 * kDeviation * kDeviation));
}

float mitchell_cubic(float x) {
  if (x >= 2) return 0;
  if (x >= 1) return (((-7.0F / 18) * x + 2) * x - 10.0F / 3) * x + 16.0F / 9;
  return (((7.0F / 6) * x - 2) * x) * x + 8.0F / 9;
}

std::pair<float, float (*)(float)> kernel_of(Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::kLanczos3:
      return {3, [](float x) { return lanczos(x, 3); }};
    case Interpolation::kLanczos5:
      return {5, [](float x) { return lanczos(x, 5); }};
    case Interpolation::kGaussian:
      return {1.5F, gaussian};
    default:
      return {2, mitchell_cubic};
  }
}

Span kernel_span(std::int64_t from, float scale, std::int64_t index, Interpolation interpolation) {
  const auto [radius, kernel] = kernel_of(interpolation);
  const float at = (static_cast<float>(index) + 0.5F) * scale;
  const auto first = static_cast<std::int64_t>(std::ceil(at - radius - 0.5F));
  const auto last = static_cast<std::int64_t>(std::floor(at + radius - 0.5F));
  Span span{std::clamp<std::int64_t>(first, 0, from - 1), {}};
  for (std::int64_t i = span.start; i <= std::clamp<std::int64_t>(last, 0, from - 1); ++i) {
    span.weights.push_back(kernel(std::abs(static_cast<float>(i) + 0.5F - at)));
  }
  divide_by_sum(span.weights);
  return span;
}

Span span_of(std::int64_t from, float scale, std::int64_t index, Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::kBilinear:
      return bilinear_span(from, scale, index);
    case Interpolation::kNearest:
      return nearest_span(from, scale, index);
    case Interpolation::kBicubic:
      return bicubic_span(from, scale, index);
    case Interpolation::kArea:
      return area_span(from, scale, index);
    default:
      return kernel_span(from, scale, index, interpolation);
  }
}

}  // namespace

AxisWeights axis_weights(std::int64_t from, std::int64_t to, Interpolation interpolation) {
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  std::vector<Span> spans;
  AxisWeights axis;
  for (std::int64_t i = 0; i < to; ++i) {
    spans.push_back(span_of(from, scale, i, interpolation));
    axis.taps = std::max(axis.taps, static_cast<std::int64_t>(spans.back().weights.size()));
  }
  axis.weights.resize(static_cast<std::size_t>(to * axis.taps));
  for (std::int64_t i = 0; i < to; ++i) {
    const Span& span = spans[static_cast<std::size_t>(i)];
    const std::int64_t start = std::min(span.start, from - axis.taps);
    axis.starts.push_back(start);
    std::copy(span.weights.begin(), span.weights.end(),
              axis.weights.begin() + i * axis.taps + (span.start - start));
  }
  return axis;
}

}  // namespace brigade::image::internal
