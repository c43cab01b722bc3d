#include "brigade/input/image_tensor.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <span>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::input {
namespace {

using base::str_cat;

template <class T>
std::span<T> values_of(at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

template <class T>
void resize_planes(const at::Tensor& from, const image::Size& size,
                   image::Interpolation interpolation, at::Tensor& to) {
  const image::Size old{from.size(-2), from.size(-1)};
  const std::int64_t planes = from.numel() / (old.height * old.width);
  const T* plane = from.const_data_ptr<T>();
  auto* target = to.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < planes; ++i, plane += old.height * old.width) {
    const image::BasicImageView<T> view(plane, old, 1, old.width);
    const auto resized = image::resize(view, size, interpolation);
    target = std::copy(resized.values().begin(), resized.values().end(), target);
  }
}

/// The largest value of an integral dtype.
std::int64_t largest_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kByte:
      return std::numeric_limits<std::uint8_t>::max();
    case at::kChar:
      return std::numeric_limits<std::int8_t>::max();
    case at::kShort:
      return std::numeric_limits<std::int16_t>::max();
    case at::kInt:
      return std::numeric_limits<std::int32_t>::max();
    default:
      throw Error(
          ErrorCode::kInvalidArgument,
          str_cat("convert_image_dtype: ", at::toString(dtype),
                  " is not a dtype of images; use uint8, int8, int16, int32 or a float type"));
  }
}

at::Tensor limited(const at::Tensor& values, at::ScalarType dtype) {
  const std::int64_t largest = largest_of(dtype);
  return values.clamp(dtype == at::kByte ? 0 : -largest - 1, largest).to(dtype);
}

at::Tensor between_integers(const at::Tensor& images, at::ScalarType dtype) {
  const std::int64_t from = largest_of(images.scalar_type()) + 1;
  const std::int64_t to = largest_of(dtype) + 1;
  const at::Tensor wide = images.to(at::kLong);
  return limited(from > to ? wide.floor_divide(from / to) : wide.mul(to / from), dtype);
}

/// In float64 if float32 cannot represent the largest integers exactly.
at::Tensor to_integers(const at::Tensor& images, at::ScalarType dtype) {
  const double scale = static_cast<double>(largest_of(dtype)) + 0.5;
  const at::Tensor exact = dtype == at::kInt ? images.to(at::kDouble) : images.to(at::kFloat);
  return limited(exact.mul(scale).trunc(), dtype);
}

void warn_about_floats() {
  static std::once_flag said;
  std::call_once(said, [] {
    base::log_warning(
        "convert_image_dtype: the image has floats already, so its values are unchanged; if "
        "they are 0 to 255, divide them by 255 (logged once)");
  });
}

}  // namespace

at::Tensor to_tensor(const image::ImageView& image, image::Layout layout) {
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  at::Tensor tensor = at::empty({image.height(), image.width(), image.channels()}, at::kByte);
  auto* to = tensor.mutable_data_ptr<std::uint8_t>();
  for (std::int64_t y = 0; y < image.height(); ++y) {
    to = std::copy_n(image.row(y), image.row_values(), to);
  }
  if (layout == image::Layout::kChannelsLast) return tensor;
  return tensor.permute({2, 0, 1}).contiguous();
}

at::Tensor normalize(const image::ImageView& image, const image::NormalizeOptions& options) {
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  const std::int64_t height = image.height();
  const std::int64_t width = image.width();
  at::Tensor tensor = options.layout == image::Layout::kChannelsFirst
                          ? at::empty({image.channels(), height, width}, at::kFloat)
                          : at::empty({height, width, image.channels()}, at::kFloat);
  image::normalize(image, options, values_of<float>(tensor));
  return tensor;
}

at::Tensor decode_to_tensor(std::string_view bytes, const image::DecodeOptions& options,
                            image::Layout layout) {
  return to_tensor(image::decode_image(bytes, options), layout);
}

at::Tensor resize_images(const at::Tensor& images, const image::Size& size,
                         image::Interpolation interpolation) {
  check_argument(
      images.defined() && images.dim() >= 2 && images.device().is_cpu(),
      "resize_images: images are a tensor on the CPU with two dimensions or more, height and "
      "width last");
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  const at::Tensor from = images.contiguous();
  std::vector<std::int64_t> shape = from.sizes().vec();
  shape[shape.size() - 2] = size.height;
  shape[shape.size() - 1] = size.width;
  check_argument(size.height > 0 && size.width > 0 && from.numel() > 0,
                 str_cat("resize_images: images of ", base::join(from.sizes(), " x "), " to ", size,
                         "; both must have pixels"));
  at::Tensor to = at::empty(shape, at::kFloat);
  if (from.scalar_type() == at::kByte) {
    resize_planes<std::uint8_t>(from, size, interpolation, to);
  } else if (from.scalar_type() == at::kFloat) {
    resize_planes<float>(from, size, interpolation, to);
  } else {
    throw Error(ErrorCode::kInvalidArgument,
                str_cat("resize_images: the images' dtype is ", at::toString(from.scalar_type()),
                        "; it must be uint8 or float32"));
  }
  return to;
}

at::Tensor convert_image_dtype(const at::Tensor& images, at::ScalarType dtype) {
  check_argument(images.defined(), "convert_image_dtype: the tensor is undefined");
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  const bool from_floats = images.is_floating_point();
  const bool to_floats = at::isFloatingType(dtype);
  if (from_floats && to_floats) {
    warn_about_floats();
    return images.to(dtype);
  }
  if (images.scalar_type() == dtype) return images;
  if (from_floats) return to_integers(images, dtype);
  if (!to_floats) return between_integers(images, dtype);
  const auto largest = static_cast<double>(largest_of(images.scalar_type()));
  return images.to(dtype).mul(1 / largest);
}

}  // namespace brigade::input
