#include "brigade/layers/sliding_window.h"

#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <limits>

#include "brigade/base/error.h"
#include "brigade/layers/deferred_convolution.h"

namespace brigade::layers {
namespace {

std::array<std::int64_t, 2> pair(const Size2d& size) {
  return {size.height, size.width};
}

std::int64_t reach(std::int64_t size, std::int64_t rate) {
  return (size - 1) * rate + 1;
}

std::int64_t steps(std::int64_t image, std::int64_t size, std::int64_t stride, std::int64_t rate) {
  const auto rest = image - reach(size, rate);
  return rest < 0 ? 0 : rest / stride + 1;
}

std::int64_t total_margin(std::int64_t image, std::int64_t size, std::int64_t stride,
                          std::int64_t rate) {
  const auto wanted = (image + stride - 1) / stride;
  return std::max<std::int64_t>(0, (wanted - 1) * stride + reach(size, rate) - image);
}

at::Tensor padded(const at::Tensor& images, const Margins& margins, double value) {
  return at::constant_pad_nd(images, {margins.left, margins.right, margins.top, margins.bottom},
                             value);
}

// An image of one channel can be contiguous and have channels_last strides at the same time; the
// convolution would then return channels_last, and later operations would be slower.
at::Tensor planes(const at::Tensor& images) {
  if (images.size(1) != 1 || !images.is_contiguous()) return images;
  if (images.suggest_memory_format() == at::MemoryFormat::Contiguous) return images;
  return images.squeeze(1).unsqueeze(1);
}

/// Whether libtorch's pooling can handle the odd row by rounding up: then its windows that begin
/// inside the image are the same as TensorFlow's.
bool rounds_up(const SlidingWindow& window, const Margins& margins) {
  const bool by_height = margins.top == margins.bottom || window.stride.height > 1;
  const bool by_width = margins.left == margins.right || window.stride.width > 1;
  return by_height && by_width;
}

void check_positive(const char* layer, const char* what, const Size2d& size) {
  if (size.height >= 1 && size.width >= 1) return;
  refuse(layer, ": ", what, " is ", size.height, " x ", size.width, "; expected 1 or more each");
}

}  // namespace

Margins margins_of(const SlidingWindow& window, std::int64_t height, std::int64_t width) {
  if (window.padding == Padding::kValid) return {};
  if (window.padding == Padding::kSymmetric) {
    const auto rows = (window.size.height - 1) / 2 * window.rate.height;
    const auto columns = (window.size.width - 1) / 2 * window.rate.width;
    return {rows, rows, columns, columns};
  }
  const auto rows =
      total_margin(height, window.size.height, window.stride.height, window.rate.height);
  const auto columns =
      total_margin(width, window.size.width, window.stride.width, window.rate.width);
  return {rows / 2, rows - rows / 2, columns / 2, columns - columns / 2};
}

Size2d output_size(const SlidingWindow& window, std::int64_t height, std::int64_t width) {
  const auto margins = margins_of(window, height, width);
  return {steps(margins.top + height + margins.bottom, window.size.height, window.stride.height,
                window.rate.height),
          steps(margins.left + width + margins.right, window.size.width, window.stride.width,
                window.rate.width)};
}

void check_window(const char* layer, const at::Tensor& images, const SlidingWindow& window) {
  if (!images.defined()) refuse(layer, ": images are an undefined tensor");
  if (images.dim() != 4) {
    refuse(layer, ": images have shape ", images.sizes(),
           "; expected [examples, channels, height, width]");
  }
  check_positive(layer, "the window", window.size);
  check_positive(layer, "stride", window.stride);
  check_positive(layer, "rate", window.rate);
  if (window.padding == Padding::kSame) return;
  const auto result = output_size(window, images.size(2), images.size(3));
  if (result.height < 1 || result.width < 1) {
    refuse(
        layer, ": a window of ", reach(window.size.height, window.rate.height), " x ",
        reach(window.size.width, window.rate.width), " does not fit into images of shape ",
        images.sizes(),
        ", whose last two dimensions are height and width; use a smaller one, or Padding::kSame");
  }
}

at::Tensor in_format(const at::Tensor& images, std::optional<at::MemoryFormat> format) {
  return format ? images.contiguous(*format) : images;
}

at::Tensor convolve(const at::Tensor& images, const at::Tensor& weights, const at::Tensor& biases,
                    const SlidingWindow& window, std::int64_t groups) {
  const auto margins = margins_of(window, images.size(2), images.size(3));
  const auto stride = pair(window.stride), rate = pair(window.rate);
  if (margins.is_symmetric()) {
    const std::array<std::int64_t, 2> padding = {margins.top, margins.left};
    return deferrable_conv2d(planes(images), weights, biases, stride, padding, rate, groups);
  }
  const std::array<std::int64_t, 2> no_padding = {0, 0};
  return deferrable_conv2d(padded(planes(images), margins, 0.0), weights, biases, stride,
                           no_padding, rate, groups);
}

at::Tensor max_pool(const at::Tensor& images, const SlidingWindow& window) {
  const auto margins = margins_of(window, images.size(2), images.size(3));
  const auto size = pair(window.size), stride = pair(window.stride);
  if (!rounds_up(window, margins)) {
    const auto input = padded(images, margins, -std::numeric_limits<double>::infinity());
    return at::max_pool2d(input, size, stride);
  }
  const std::array<std::int64_t, 2> padding = {margins.top, margins.left};
  return at::max_pool2d(images, size, stride, padding, {1, 1},
                        /*ceil_mode=*/!margins.is_symmetric());
}

at::Tensor average_pool(const at::Tensor& images, const SlidingWindow& window) {
  const auto margins = margins_of(window, images.size(2), images.size(3));
  const auto size = pair(window.size), stride = pair(window.stride);
  if (window.count_padding && !margins.is_symmetric()) {
    return at::avg_pool2d(padded(images, margins, 0.0), size, stride);
  }
  if (!rounds_up(window, margins)) {
    const auto sums = at::avg_pool2d(padded(images, margins, 0.0), size, stride);
    const auto inside = at::ones({1, 1, images.size(2), images.size(3)}, images.options());
    return sums / at::avg_pool2d(padded(inside, margins, 0.0), size, stride);
  }
  const std::array<std::int64_t, 2> padding = {margins.top, margins.left};
  return at::avg_pool2d(images, size, stride, padding, /*ceil_mode=*/!margins.is_symmetric(),
                        window.count_padding);
}

}  // namespace brigade::layers
