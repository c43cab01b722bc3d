#include "brigade/input/image_tensor.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <mutex>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::input {
namespace {

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
      refuse("convert_image_dtype: ", at::toString(dtype),
             " is not a dtype of images; use uint8, int8, int16, int32 or a float type");
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
        "convert_image_dtype: the image has floats already, so its values are unchanged; if they "
        "are 0 to 255, divide them by 255 (logged once)");
  });
}

void check_image(const at::Tensor& image, const char* name) {
  if (image.defined() && image.dim() >= 2 && image.device().is_cpu()) return;
  throw Error(
      ErrorCode::kInvalidArgument, name,
      ": an image is a tensor on the CPU with two dimensions or more, height and width last");
}

/// The range of starts along one dimension, both ends included, is 0 to this.
std::int64_t last_start(std::int64_t extent, std::int64_t window, const char* dimension) {
  if (window < 1 || window > extent) {
    refuse("random_crop: the ", dimension, " to crop is ", window,
           "; the image with its padding has ", extent);
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

/// Overwrites a window of a contiguous image [C, height, width] with noise or with `fill`. The
/// order of draws is that of `image::random_erasing`.
template <class T>
void erase_window(const at::Tensor& image, const image::Window& window,
                  const image::RandomErasingOptions& options, base::CounterRng& rng) {
  auto values = image.accessor<T, 3>();
  for (std::int64_t y = window.top; y < window.top + window.height; ++y) {
    for (std::int64_t x = window.left; x < window.left + window.width; ++x) {
      for (std::int64_t c = 0; c < image.size(0); ++c) {
        values[c][y][x] = image::internal::erased_value<T>(options, c, rng);
      }
    }
  }
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
  image::normalize(image, options,
                   {tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())});
  return tensor;
}

at::Tensor decode_to_tensor(std::string_view bytes, const image::DecodeOptions& options,
                            image::Layout layout) {
  return to_tensor(image::decode_image(bytes, options), layout);
}

at::Tensor resize_images(const at::Tensor& images, const image::Size& size,
                         image::Interpolation interpolation) {
  check_argument(images.defined() && images.dim() >= 2 && images.device().is_cpu(),
                 "resize_images: images are a tensor on the CPU with two dimensions or more, "
                 "height and width last");
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  const at::Tensor from = images.contiguous();
  std::vector<std::int64_t> shape = from.sizes().vec();
  shape[shape.size() - 2] = size.height;
  shape[shape.size() - 1] = size.width;
  check_argument(size.height > 0 && size.width > 0 && from.numel() > 0, "resize_images: images of ",
                 base::join(from.sizes(), " x "), " to ", size, "; both must have pixels");
  at::Tensor to = at::empty(shape, at::kFloat);
  if (from.scalar_type() == at::kByte) {
    resize_planes<std::uint8_t>(from, size, interpolation, to);
  } else if (from.scalar_type() == at::kFloat) {
    resize_planes<float>(from, size, interpolation, to);
  } else {
    refuse("resize_images: the images' dtype is ", at::toString(from.scalar_type()),
           "; it must be uint8 or float32");
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

at::Tensor random_crop(const at::Tensor& image, const CropOptions& options,
                       data::ElementContext& context) {
  check_image(image, "random_crop");
  if (options.padding < 0) {
    refuse("random_crop: padding is ", options.padding, "; it must be 0 or more");
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
    refuse("random_horizontal_flip: the probability is ", probability, "; it must be in [0, 1]");
  }
  if (context.rng.uniform() >= probability) return image;
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  return image.flip({-1});
}

at::Tensor random_erasing(const at::Tensor& image, const image::RandomErasingOptions& options,
                          data::ElementContext& context) {
  check_image(image, "random_erasing");
  const bool is_supported = image.dim() <= 3 && (image.dim() == 2 || image.size(0) <= 4) &&
                            (image.scalar_type() == at::kFloat || image.scalar_type() == at::kByte);
  if (!is_supported) {
    refuse("random_erasing: the image is ", image.scalar_type(), " ", image.sizes(),
           "; it must be float32 or uint8 [C, height, width] with up to 4 channels");
  }
  const auto window =
      image::random_erasing_window({image.size(-2), image.size(-1)}, options, context.rng);
  if (!window) return image;
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const at::Tensor copy = image.clone(at::MemoryFormat::Contiguous);
  const at::Tensor planes = copy.view({-1, image.size(-2), image.size(-1)});
  image.scalar_type() == at::kFloat
      ? erase_window<float>(planes, *window, options, context.rng)
      : erase_window<std::uint8_t>(planes, *window, options, context.rng);
  return copy;
}

}  // namespace brigade::input
