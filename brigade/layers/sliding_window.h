#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>

namespace brigade::layers {

/// What happens at the edges of an image.
enum class Padding {
  kSame,  ///< The result has ceil(size / stride) rows: the image is padded, an odd row or column at
          ///< the bottom and right, as in TensorFlow.
  kValid,  ///< The window stays inside the image.
  /// (window - 1) / 2 * rate rows and columns on each side, whatever the image and the stride, as
  /// `padding=k // 2` of PyTorch's layers for an odd window of k. The division rounds down: an even
  /// window of k is padded as with `padding=(k - 1) // 2`, so at stride 1 the result is one row
  /// smaller. With a stride above 1 the windows lie elsewhere than with kSame, so models of
  /// torchvision (ResNet) need this padding to have the same results.
  kSymmetric,
};

/// Height and width of a window or step; one number means both.
struct Size2d {
  // Conversions, so that both `conv2d(x, 64, 3)` and `conv2d(x, 64, {1, 7})` work.
  constexpr Size2d(int both) : height(both), width(both) {}
  constexpr Size2d(std::int64_t both) : height(both), width(both) {}
  constexpr Size2d(std::int64_t the_height, std::int64_t the_width)
      : height(the_height), width(the_width) {}

  std::int64_t height;
  std::int64_t width;
};

/// The parameters of a window that slides over an image, for layers.
struct SlidingWindow {
  Size2d size = 1;
  Size2d stride = 1;
  Size2d rate = 1;  ///< the distance between two elements of the window
  Padding padding = Padding::kSame;
  /// Of average pooling: elements of the margins count as zeros. If false, they do not count.
  bool count_padding = false;
};

/// Rows and columns that are added on each side.
struct Margins {
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;
  bool is_symmetric() const { return top == bottom && left == right; }
};

/// The margins of an image of `height` by `width`: with kSame by TensorFlow's rule.
Margins margins_of(const SlidingWindow& window, std::int64_t height, std::int64_t width);

/// The rows and columns of the result for an image of `height` by `width`; 0 if the window does not
/// fit into the image with its margins.
Size2d output_size(const SlidingWindow& window, std::int64_t height, std::int64_t width);

/// Throws kInvalidArgument, naming `layer`, unless `images` are [N, C, H, W], every number of
/// `window` is positive, and the window fits into the image with its margins.
void check_window(const char* layer, const at::Tensor& images, const SlidingWindow& window);

/// `images`, or kernels, in this order in memory; unset: as they are. Differentiable.
at::Tensor in_format(const at::Tensor& images, std::optional<at::MemoryFormat> format);

/// The convolution of `images` [N, in, H, W] with `weights` [out, in / groups, kh, kw]. `biases`
/// may be undefined.
at::Tensor convolve(const at::Tensor& images, const at::Tensor& weights, const at::Tensor& biases,
                    const SlidingWindow& window, std::int64_t groups = 1);

/// The largest element under the window.
at::Tensor max_pool(const at::Tensor& images, const SlidingWindow& window);
/// The mean of those elements under the window that belong to the image, or of all, with zeros in
/// the margins (`count_padding`).
at::Tensor average_pool(const at::Tensor& images, const SlidingWindow& window);

}  // namespace brigade::layers
