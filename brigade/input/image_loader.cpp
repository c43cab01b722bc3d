#include "brigade/input/image_loader.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "brigade/base/strings.h"
#include "brigade/image/crop.h"
#include "brigade/image/decode.h"
#include "brigade/image/jpeg.h"
#include "brigade/image/normalize.h"
#include "brigade/io/file_system.h"

namespace brigade::input::internal {
namespace {

using base::str_cat;

constexpr std::uint64_t kMaxImageBytes = std::uint64_t{1} << 30;

std::int64_t channels_of(ColorMode mode) {
  switch (mode) {
    case ColorMode::kRgb:
      return 3;
    case ColorMode::kRgba:
      return 4;
    case ColorMode::kGrayscale:
      return 1;
  }
  return 3;
}

}  // namespace

ImageLoader::ImageLoader(FileListPtr list, const ImageFolderOptions& options)
    : list_(std::move(list)),
      options_(options),
      files_(options.files ? options.files : io::posix_file_system()) {}

at::Tensor ImageLoader::load(std::int64_t number) const {
  const auto file = static_cast<std::uint64_t>(number);
  try {
    return tensor_of(decode(io::read_at_most(*files_, (*list_)[file], kMaxImageBytes)));
  } catch (...) {
    list_->rethrow_in(file);
  }
}

std::string ImageLoader::describe() const {
  const std::string crop = options_.aspect_ratio == AspectRatio::kCrop ? ", cropped" : "";
  const std::string scaled = options_.jpeg_decoding == JpegDecoding::kScaled ? ", scaled" : "";
  return str_cat("load_picture(", channels_of(options_.color_mode), " channels, ",
                 options_.image_size, ", ", options_.interpolation, crop, scaled, ", ",
                 options_.layout, ")");
}

image::Image ImageLoader::decode(const std::string& bytes) const {
  const std::int64_t channels = channels_of(options_.color_mode);
  if (options_.jpeg_decoding == JpegDecoding::kScaled &&
      image::format_of(bytes) == image::Format::kJpeg) {
    const std::int64_t ratio = largest_ratio(image::jpeg_size(bytes));
    return image::decode_jpeg(bytes, {.channels = channels, .ratio = ratio});
  }
  return image::decode_image(bytes, {.channels = channels});
}

std::int64_t ImageLoader::largest_ratio(const image::Size& stored) const {
  const image::Size& wanted = options_.image_size;
  std::int64_t ratio = 8;
  while (ratio > 1 &&
         (stored.height < ratio * wanted.height || stored.width < ratio * wanted.width)) {
    ratio /= 2;
  }
  return ratio;
}

at::Tensor ImageLoader::tensor_of(const image::Image& image) const {
  const image::Size& size = options_.image_size;
  const image::ImageView part =
      options_.aspect_ratio == AspectRatio::kCrop
          ? image.view().window(image::window_of_aspect(image.size(), size))
          : image.view();
  const image::FloatImage resized = image::resize(part, size, options_.interpolation);
  const bool is_first = options_.layout == image::Layout::kChannelsFirst;
  at::Tensor tensor = is_first ? at::empty({image.channels(), size.height, size.width}, at::kFloat)
                               : at::empty({size.height, size.width, image.channels()}, at::kFloat);
  auto* values = tensor.mutable_data_ptr<float>();
  if (is_first) {
    image::to_channels_first(resized, {values, static_cast<std::size_t>(tensor.numel())});
  } else {
    std::copy(resized.values().begin(), resized.values().end(), values);
  }
  return tensor;
}

}  // namespace brigade::input::internal
