#include "brigade/image/augment_operations.h"

#include <algorithm>
#include <cmath>

#include "brigade/base/error.h"

namespace brigade::image {
namespace {

using ByteTable = std::array<std::uint8_t, 256>;  // the new value of each value

void check_factor(const ImageView& image, std::string_view what, double factor) {
  internal::checked_values(image.size(), image.channels());
  check_argument(factor >= 0 && std::isfinite(factor), what, ": the factor is ", factor,
                 " and must be at least 0");
}

std::uint8_t byte_below(float value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F));
}

/// The value at `factor` on the line from `other` (0) through the image's (1).
class Blend {
 public:
  explicit Blend(double factor)
      : image_(static_cast<float>(factor)), other_(static_cast<float>(1.0 - factor)) {}
  std::uint8_t operator()(float image, float other) const {
    return byte_below(image_ * image + other_ * other);
  }

 private:
  const float image_;
  const float other_;
};

/// The gray value of an RGB pixel, cut off to an integer.
std::uint8_t gray_value_of(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>(0.2989F * static_cast<float>(rgb[0]) +
                                   0.587F * static_cast<float>(rgb[1]) +
                                   0.114F * static_cast<float>(rgb[2]));
}

/// The mean of all gray values.
float mean_gray(const ImageView& image) {
  std::uint64_t sum = 0;
  for (std::int64_t y = 0; y < image.height(); ++y) {
    for (std::int64_t x = 0; x < image.width(); ++x) {
      const std::uint8_t* pixel = &image.at(y, x, 0);
      sum += image.channels() == 1 ? *pixel : gray_value_of(pixel);
    }
  }
  return static_cast<float>(static_cast<double>(sum) /
                            static_cast<double>(image.height() * image.width()));
}

/// Calls `change(value)` for every value of a copy.
template <class Change>
Image with_values(const ImageView& image, const Change& change) {
  Image result(image);
  std::uint8_t* values = result.row(0);
  const std::int64_t count = result.height() * result.width() * result.channels();
  for (std::int64_t i = 0; i < count; ++i) values[i] = change(values[i]);
  return result;
}

/// Changes each channel's values by a separate table.
Image with_tables(const ImageView& image, const std::array<ByteTable, 4>& tables) {
  Image result(image);
  for (std::int64_t y = 0; y < result.height(); ++y) {
    std::uint8_t* row = result.row(y);
    for (std::int64_t i = 0; i < result.width(); ++i) {
      for (std::int64_t c = 0; c < result.channels(); ++c, ++row)
        *row = tables[static_cast<std::size_t>(c)][*row];
    }
  }
  return result;
}

/// How often each value occurs, for each channel.
using Histogram = std::array<std::int64_t, 256>;
std::array<Histogram, 4> histograms_of(const ImageView& image) {
  internal::checked_values(image.size(), image.channels());
  std::array<Histogram, 4> histograms{};
  for (std::int64_t y = 0; y < image.height(); ++y) {
    const std::uint8_t* value = image.row(y);
    for (std::int64_t x = 0; x < image.width(); ++x) {
      for (std::int64_t c = 0; c < image.channels(); ++c)
        ++histograms[static_cast<std::size_t>(c)][*value++];
    }
  }
  return histograms;
}

std::size_t first_value(const Histogram& histogram) {
  const auto found = std::find_if(histogram.begin(), histogram.end(), [](auto n) { return n > 0; });
  return static_cast<std::size_t>(found - histogram.begin());
}

std::size_t last_value(const Histogram& histogram) {
  const auto found =
      std::find_if(histogram.rbegin(), histogram.rend(), [](auto n) { return n > 0; });
  return static_cast<std::size_t>(histogram.rend() - found) - 1;
}

ByteTable identity_table() {
  ByteTable table{};
  for (std::size_t value = 0; value < table.size(); ++value)
    table[value] = static_cast<std::uint8_t>(value);
  return table;
}

ByteTable stretched(const Histogram& histogram) {
  ByteTable table = identity_table();
  const std::size_t first = first_value(histogram);
  const std::size_t last = last_value(histogram);
  if (first == last) return table;
  const float scale = 1.0F / static_cast<float>(last - first) * 255.0F;  // rounds as torch
  for (std::size_t value = first; value <= last; ++value)
    table[value] = byte_below(static_cast<float>(value - first) * scale);
  return table;
}

/// As Pillow's ImageOps.equalize: the largest value is not counted.
ByteTable equalized(const Histogram& histogram) {
  ByteTable table = identity_table();
  std::int64_t counted = 0;
  for (std::size_t value = 0; value < last_value(histogram); ++value) counted += histogram[value];
  const std::int64_t step = counted / 255;
  if (step == 0) return table;
  std::int64_t below = step / 2;
  for (std::size_t value = 0; value < table.size(); ++value) {
    table[value] = static_cast<std::uint8_t>(std::min<std::int64_t>(below / step, 255));
    below += histogram[value];
  }
  return table;
}

template <class TableOf>
Image with_tables_of(const ImageView& image, const TableOf& table_of) {
  const std::array<Histogram, 4> histograms = histograms_of(image);
  std::array<ByteTable, 4> tables;
  std::transform(histograms.begin(), histograms.begin() + image.channels(), tables.begin(),
                 table_of);
  return with_tables(image, tables);
}

/// The weights 1 1 1, 1 5 1, 1 1 1, rounded; the outermost pixels stay.
std::uint8_t blurred(const ImageView& image, std::int64_t y, std::int64_t x, std::int64_t c) {
  const bool is_inside = y > 0 && x > 0 && y + 1 < image.height() && x + 1 < image.width();
  if (!is_inside) return image.at(y, x, c);
  int sum = 4 * image.at(y, x, c);
  for (std::int64_t dy = -1; dy <= 1; ++dy)
    for (std::int64_t dx = -1; dx <= 1; ++dx) sum += image.at(y + dy, x + dx, c);
  return static_cast<std::uint8_t>((2 * sum + 13) / 26);
}

}  // namespace

void internal::check_gray_or_rgb(const ImageView& image, std::string_view what) {
  check_argument(image.channels() == 1 || image.channels() == 3, what, ": the image has ",
                 image.channels(), " channels; it must have 1 or 3");
}

Image enhance_brightness(const ImageView& image, double factor) {
  check_factor(image, "enhance_brightness", factor);
  const Blend blend(factor);
  return with_values(image,
                     [&](std::uint8_t value) { return blend(static_cast<float>(value), 0); });
}

Image enhance_color(const ImageView& image, double factor) {
  check_factor(image, "enhance_color", factor);
  internal::check_gray_or_rgb(image, "enhance_color");
  Image result(image);
  if (image.channels() == 1) return result;
  const Blend blend(factor);
  for (std::int64_t y = 0; y < result.height(); ++y) {
    std::uint8_t* pixel = result.row(y);
    for (std::int64_t x = 0; x < result.width(); ++x, pixel += 3) {
      const float gray = gray_value_of(pixel);
      for (int c = 0; c < 3; ++c) pixel[c] = blend(static_cast<float>(pixel[c]), gray);
    }
  }
  return result;
}

Image enhance_contrast(const ImageView& image, double factor) {
  check_factor(image, "enhance_contrast", factor);
  internal::check_gray_or_rgb(image, "enhance_contrast");
  const Blend blend(factor);
  const float mean = mean_gray(image);
  return with_values(image,
                     [&](std::uint8_t value) { return blend(static_cast<float>(value), mean); });
}

Image enhance_sharpness(const ImageView& image, double factor) {
  check_factor(image, "enhance_sharpness", factor);
  Image result(image);
  if (image.height() <= 2 || image.width() <= 2) return result;
  const Blend blend(factor);
  for (std::int64_t y = 0; y < image.height(); ++y) {
    for (std::int64_t x = 0; x < image.width(); ++x) {
      for (std::int64_t c = 0; c < image.channels(); ++c) {
        result.at(y, x, c) = blend(static_cast<float>(image.at(y, x, c)),
                                   static_cast<float>(blurred(image, y, x, c)));
      }
    }
  }
  return result;
}

Image posterize(const ImageView& image, int bits) {
  check_argument(bits >= 0 && bits <= 8, "posterize: ", bits, " bits; it must be 0 to 8");
  const auto mask = static_cast<std::uint8_t>(0xff << (8 - bits));
  return with_values(image,
                     [&](std::uint8_t value) { return static_cast<std::uint8_t>(value & mask); });
}

Image solarize(const ImageView& image, double threshold) {
  check_argument(!std::isnan(threshold), "solarize: the threshold is not a number");
  return with_values(image, [&](std::uint8_t value) {
    return value >= threshold ? static_cast<std::uint8_t>(255 - value) : value;
  });
}

Image autocontrast(const ImageView& image) {
  return with_tables_of(image, stretched);
}

Image equalize(const ImageView& image) {
  return with_tables_of(image, equalized);
}

std::string_view to_string(AugmentOperation operation) {
  constexpr std::array<std::string_view, kAugmentOperations.size()> kNames = {
      "identity",  "shear_x",    "shear_y",      "translate_x", "translate_y",
      "rotate",    "brightness", "color",        "contrast",    "sharpness",
      "posterize", "solarize",   "autocontrast", "equalize"};
  return kNames[static_cast<std::size_t>(operation)];
}

Image augmented(const ImageView& image, const Augmentation& augmentation,
                const AffineOptions& options) {
  const double magnitude = augmentation.magnitude;
  switch (augmentation.operation) {
    case AugmentOperation::kShearX:
      return shear_x(image, magnitude, options);
    case AugmentOperation::kShearY:
      return shear_y(image, magnitude, options);
    case AugmentOperation::kTranslateX:
      return translate_x(image, magnitude, options);
    case AugmentOperation::kTranslateY:
      return translate_y(image, magnitude, options);
    case AugmentOperation::kRotate:
      return rotate(image, magnitude, options);
    case AugmentOperation::kBrightness:
      return enhance_brightness(image, 1 + magnitude);
    case AugmentOperation::kColor:
      return enhance_color(image, 1 + magnitude);
    case AugmentOperation::kContrast:
      return enhance_contrast(image, 1 + magnitude);
    case AugmentOperation::kSharpness:
      return enhance_sharpness(image, 1 + magnitude);
    case AugmentOperation::kPosterize:
      return posterize(image, static_cast<int>(magnitude));
    case AugmentOperation::kSolarize:
      return solarize(image, magnitude);
    case AugmentOperation::kAutocontrast:
      return autocontrast(image);
    case AugmentOperation::kEqualize:
      return equalize(image);
    case AugmentOperation::kIdentity:
      break;
  }
  return Image(image);
}

}  // namespace brigade::image
