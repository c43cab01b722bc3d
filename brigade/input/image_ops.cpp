#include "brigade/input/image_ops.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::input {
namespace {

void check_image(const at::Tensor& image, const char* name) {
  if (image.defined() && image.dim() >= 2 && image.device().is_cpu()) return;
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat(name,
                            ": an image is a tensor on the CPU with two dimensions or more, "
                            "height and width last"));
}

/// The range of starts along one dimension, both ends included, is 0 to this.
std::int64_t last_start(std::int64_t extent, std::int64_t window, const char* dimension) {
  if (window < 1 || window > extent) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat("random_crop: the ", dimension, " to crop is ", window,
                              "; the image with its padding has ", extent));
  }
  return extent - window;
}

std::int64_t random_start(std::int64_t last, base::CounterRng& rng) {
  return static_cast<std::int64_t>(rng.uniform_below(static_cast<std::uint64_t>(last) + 1));
}

struct Window {
  std::int64_t top;  // may begin outside the image
  std::int64_t left;
  std::int64_t height;
  std::int64_t width;
};

/// The part [begin, begin + length) of a window's extent that is inside the image.
struct Overlap {
  std::int64_t begin;
  std::int64_t length;
};

Overlap overlap_of(std::int64_t start, std::int64_t window, std::int64_t extent) {
  const std::int64_t begin = std::max<std::int64_t>(-start, 0);
  const std::int64_t end = std::min(window, extent - start);
  return {begin, std::max<std::int64_t>(end - begin, 0)};
}

/// Copies rows directly: for small images the overhead of a tensor operation would dominate.
at::Tensor window_of(const at::Tensor& image, const Window& window) {
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  const at::Tensor source = image.contiguous();
  const std::int64_t height = source.size(-2);
  const std::int64_t width = source.size(-1);
  std::vector<std::int64_t> shape = source.sizes().vec();
  shape[shape.size() - 2] = window.height;
  shape[shape.size() - 1] = window.width;
  at::Tensor result = at::zeros(shape, source.options());
  const Overlap rows = overlap_of(window.top, window.height, height);
  const Overlap columns = overlap_of(window.left, window.width, width);
  const auto item = static_cast<std::int64_t>(source.element_size());
  const auto* from = static_cast<const std::byte*>(source.const_data_ptr());
  auto* to = static_cast<std::byte*>(result.mutable_data_ptr());
  const std::int64_t planes = result.numel() / (window.height * window.width);
  for (std::int64_t plane = 0; plane < planes; ++plane) {
    for (std::int64_t row = rows.begin; row < rows.begin + rows.length; ++row) {
      const std::int64_t source_row = plane * height + window.top + row;
      const std::int64_t target_row = plane * window.height + row;
      std::memcpy(to + (target_row * window.width + columns.begin) * item,
                  from + (source_row * width + window.left + columns.begin) * item,
                  static_cast<std::size_t>(columns.length * item));
    }
  }
  return result;
}

}  // namespace

at::Tensor random_crop(const at::Tensor& image, const CropOptions& options,
                       data::ElementContext& context) {
  check_image(image, "random_crop");
  if (options.padding < 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        base::str_cat("random_crop: padding is ", options.padding, "; it must be 0 or more"));
  }
  const std::int64_t height = options.height == 0 ? image.size(-2) : options.height;
  const std::int64_t width = options.width == 0 ? image.size(-1) : options.width;
  const std::int64_t pad = options.padding;
  const std::int64_t last_top = last_start(image.size(-2) + 2 * pad, height, "height");
  const std::int64_t last_left = last_start(image.size(-1) + 2 * pad, width, "width");
  const std::int64_t top = random_start(last_top, context.rng);
  const std::int64_t left = random_start(last_left, context.rng);
  return window_of(image, {top - pad, left - pad, height, width});
}

at::Tensor random_horizontal_flip(const at::Tensor& image, data::ElementContext& context,
                                  double probability) {
  check_image(image, "random_horizontal_flip");
  if (!(probability >= 0 && probability <= 1)) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat("random_horizontal_flip: the probability is ", probability,
                              "; it must be in [0, 1]"));
  }
  if (context.rng.uniform() >= probability) return image;
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  return image.flip({-1});
}

}  // namespace brigade::input
