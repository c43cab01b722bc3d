#include "brigade/image/resize.h"

#include <algorithm>
#include <array>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/base/vector_clones.h"
#include "brigade/image/resize_weights.h"

namespace brigade::image {
namespace {

using internal::AxisWeights;

constexpr std::array kNames = {"bilinear", "nearest",  "bicubic",  "area",
                               "lanczos3", "lanczos5", "gaussian", "mitchellcubic"};

// Rows are summed first: this runs over whole rows with full vectors. The pass across pixels then
// runs over one row of the new width only.

BRIGADE_VECTOR_CLONES
void start_sum(const std::uint8_t* __restrict row, float weight, float* __restrict sum,
               std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] = weight * static_cast<float>(row[i]);
}
BRIGADE_VECTOR_CLONES
void start_sum(const float* __restrict row, float weight, float* __restrict sum, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] = weight * row[i];
}
BRIGADE_VECTOR_CLONES
void add_to_sum(const std::uint8_t* __restrict row, float weight, float* __restrict sum,
                std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] += weight * static_cast<float>(row[i]);
}
BRIGADE_VECTOR_CLONES
void add_to_sum(const float* __restrict row, float weight, float* __restrict sum, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] += weight * row[i];
}
BRIGADE_VECTOR_CLONES
void sum_two(const std::uint8_t* __restrict a, const std::uint8_t* __restrict b, float weight_a,
             float weight_b, float* __restrict sum, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    sum[i] = weight_a * static_cast<float>(a[i]) + weight_b * static_cast<float>(b[i]);
  }
}
BRIGADE_VECTOR_CLONES
void sum_two(const float* __restrict a, const float* __restrict b, float weight_a, float weight_b,
             float* __restrict sum, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] = weight_a * a[i] + weight_b * b[i];
}

template <class T>
void add_rows(const BasicImageView<T>& image, const AxisWeights& axis, std::int64_t y,
              std::vector<float>& sum) {
  const auto n = static_cast<std::int64_t>(sum.size());
  const std::int64_t start = axis.starts[static_cast<std::size_t>(y)];
  const float* weights = axis.weights.data() + y * axis.taps;
  if (axis.taps == 2) {
    sum_two(image.row(start), image.row(start + 1), weights[0], weights[1], sum.data(), n);
    return;
  }
  start_sum(image.row(start), weights[0], sum.data(), n);
  for (std::int64_t k = 1; k < axis.taps; ++k) {
    if (weights[k] != 0) add_to_sum(image.row(start + k), weights[k], sum.data(), n);
  }
}

template <std::int64_t kChannels, std::int64_t kTaps>
void add_columns(const float* row, const AxisWeights& axis, std::int64_t width, float* to) {
  const std::int64_t taps = kTaps == 0 ? axis.taps : kTaps;
  const float* weights = axis.weights.data();
  for (std::int64_t x = 0; x < width; ++x, weights += taps, to += kChannels) {
    const float* from = row + axis.starts[static_cast<std::size_t>(x)] * kChannels;
    for (std::int64_t c = 0; c < kChannels; ++c) to[c] = weights[0] * from[c];
    for (std::int64_t k = 1; k < taps; ++k) {
      for (std::int64_t c = 0; c < kChannels; ++c) to[c] += weights[k] * from[k * kChannels + c];
    }
  }
}

using AddColumns = void (*)(const float*, const AxisWeights&, std::int64_t, float*);

template <std::int64_t kChannels>
AddColumns add_columns_with(std::int64_t taps) {
  if (taps == 1) return add_columns<kChannels, 1>;
  if (taps == 2) return add_columns<kChannels, 2>;
  return add_columns<kChannels, 0>;
}

AddColumns add_columns_for(std::int64_t channels, std::int64_t taps) {
  constexpr std::array kByChannels = {add_columns_with<1>, add_columns_with<2>, add_columns_with<3>,
                                      add_columns_with<4>};
  return kByChannels[static_cast<std::size_t>(channels - 1)](taps);
}

template <class T>
FloatImage resize_any(const BasicImageView<T>& image, const Size& size,
                      Interpolation interpolation) {
  internal::checked_values(image.size(), image.channels());
  FloatImage result(size, image.channels());
  const AxisWeights rows = internal::axis_weights(image.height(), size.height, interpolation);
  const AxisWeights columns = internal::axis_weights(image.width(), size.width, interpolation);
  const AddColumns add_columns = add_columns_for(image.channels(), columns.taps);
  std::vector<float> sum(static_cast<std::size_t>(image.row_values()));
  for (std::int64_t y = 0; y < size.height; ++y) {
    add_rows(image, rows, y, sum);
    add_columns(sum.data(), columns, size.width, result.row(y));
  }
  return result;
}

BRIGADE_VECTOR_CLONES
void round_all(const float* __restrict from, std::uint8_t* __restrict to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float limited = from[i] < 0 ? 0 : from[i] > 255 ? 255 : from[i];
    to[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(limited + 0.5F));
  }
}

}  // namespace

std::string_view to_string(Interpolation interpolation) {
  return kNames[static_cast<std::size_t>(interpolation)];
}

Interpolation interpolation_of(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), base::lower_case(name));
  if (found != kNames.end()) return static_cast<Interpolation>(found - kNames.begin());
  refuse("Unknown interpolation \"", name, "\"; there are ", base::join(kNames, ", "));
}

FloatImage resize(const ImageView& image, const Size& size, Interpolation interpolation) {
  return resize_any(image, size, interpolation);
}

FloatImage resize(const FloatImageView& image, const Size& size, Interpolation interpolation) {
  return resize_any(image, size, interpolation);
}

Image resize_to_uint8(const ImageView& image, const Size& size, Interpolation interpolation) {
  const FloatImage exact = resize(image, size, interpolation);
  Image result(size, image.channels());
  round_all(exact.row(0), result.row(0), static_cast<std::int64_t>(exact.values().size()));
  return result;
}

}  // namespace brigade::image
