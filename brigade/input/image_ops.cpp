#include "brigade/input/image_ops.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/constant_pad_nd.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::input {
namespace {

void check_image(const at::Tensor& image, const char* name) {
  check_argument(
      image.defined() && image.dim() >= 2,
      base::str_cat(name, ": an image has two dimensions or more, height and width last"));
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

}  // namespace

at::Tensor random_crop(const at::Tensor& image, const CropOptions& options,
                       data::ElementContext& context) {
  check_image(image, "random_crop");
  check_argument(options.padding >= 0, base::str_cat("random_crop: padding is ", options.padding,
                                                     "; it must be 0 or more"));
  const std::int64_t height = options.height == 0 ? image.size(-2) : options.height;
  const std::int64_t width = options.width == 0 ? image.size(-1) : options.width;
  const std::int64_t pad = options.padding;
  const std::int64_t last_top = last_start(image.size(-2) + 2 * pad, height, "height");
  const std::int64_t last_left = last_start(image.size(-1) + 2 * pad, width, "width");
  const std::int64_t top = random_start(last_top, context.rng);
  const std::int64_t left = random_start(last_left, context.rng);
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  const at::Tensor padded = pad == 0 ? image : at::constant_pad_nd(image, {pad, pad, pad, pad});
  return padded.narrow(-2, top, height).narrow(-1, left, width).contiguous();
}

at::Tensor random_horizontal_flip(const at::Tensor& image, data::ElementContext& context,
                                  double probability) {
  check_image(image, "random_horizontal_flip");
  check_argument(probability >= 0 && probability <= 1,
                 base::str_cat("random_horizontal_flip: the probability is ", probability,
                               "; it must lie in [0, 1]"));
  if (context.rng.uniform() >= probability) return image;
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  return image.flip({-1});
}

}  // namespace brigade::input
