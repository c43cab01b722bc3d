#include "brigade/models/mnist_images.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::models {

// Images with one channel may have the strides of channels_last and still be contiguous. The
// convolution would then return channels_last, and all following operations would be slower.
at::Tensor mnist_planes(std::string_view model, const at::Tensor& images) {
  if (!images.defined()) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat(model, ": images are an undefined tensor"));
  }
  const bool has_channel = images.dim() == 4 && images.size(1) == 1;
  const bool fits = (has_channel || images.dim() == 3) && images.size(-1) == kMnistSide &&
                    images.size(-2) == kMnistSide;
  if (!fits) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat(model, ": images have shape ", images.sizes(),
                              "; expected [N, 1, 28, 28] or [N, 28, 28]"));
  }
  const auto plain = has_channel ? images.squeeze(1) : images;
  return plain.contiguous().unsqueeze(1);
}

void check_mnist_options(std::string_view model, std::int64_t classes, double dropout) {
  if (classes < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat(model, ": classes is ", classes, "; expected 1 or more"));
  }
  if (!(dropout >= 0.0 && dropout < 1.0)) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat(model, ": dropout is ", dropout,
                              "; expected a rate from 0 up to, but not including, 1"));
  }
}

}  // namespace brigade::models
