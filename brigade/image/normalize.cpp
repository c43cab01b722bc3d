#include "brigade/image/normalize.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/vector_clones.h"

namespace brigade::image {
namespace {

/// value * factor + offset
struct Line {
  float factor;
  float offset;
};

Line line_of(const NormalizeOptions& options, std::int64_t channel) {
  const auto c = static_cast<std::size_t>(channel);
  const float deviation = options.deviation[c];
  if (!(deviation > 0)) {
    refuse("normalize: the deviation of channel ", channel, " is ", deviation,
           "; it must be greater than 0");
  }
  return {1 / (255 * deviation), -options.mean[c] / deviation};
}

void check_room(std::span<const float> to, std::size_t values, std::string_view what) {
  if (to.size() == values) return;
  refuse(what, ": there is room for ", to.size(), " values; the image has ", values);
}

// Bytes are split into planes before the conversion to floats, so that both loops are vectorized.
constexpr std::int64_t kBlock = 512;

BRIGADE_VECTOR_CLONES
void split_three(const std::uint8_t* __restrict from, std::uint8_t* __restrict a,
                 std::uint8_t* __restrict b, std::uint8_t* __restrict c, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    a[i] = from[3 * i];
    b[i] = from[3 * i + 1];
    c[i] = from[3 * i + 2];
  }
}

void split_any(const std::uint8_t* from, std::int64_t stride, std::uint8_t* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[stride * i];
}

BRIGADE_VECTOR_CLONES
void apply_line(const std::uint8_t* __restrict from, float factor, float offset,
                float* __restrict to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]) * factor + offset;
}

BRIGADE_VECTOR_CLONES
void apply_line_backwards(const std::uint8_t* __restrict from, float factor, float offset,
                          float* __restrict to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = static_cast<float>(from[n - 1 - i]) * factor + offset;
  }
}

BRIGADE_VECTOR_CLONES
void apply_lines(const std::uint8_t* __restrict from, const float* __restrict factors,
                 const float* __restrict offsets, float* __restrict to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = static_cast<float>(from[i]) * factors[i] + offsets[i];
  }
}

/// Pixels from the right to the left.
template <std::int64_t kChannels>
void mirror(const std::uint8_t* from, std::int64_t width, std::uint8_t* to) {
  for (std::int64_t x = 0; x < width; ++x) {
    const std::uint8_t* pixel = from + kChannels * (width - 1 - x);
    for (std::int64_t c = 0; c < kChannels; ++c) to[kChannels * x + c] = pixel[c];
  }
}

void mirror_row(const ImageView& image, std::int64_t y, std::uint8_t* to) {
  constexpr std::array kMirrors = {mirror<1>, mirror<2>, mirror<3>, mirror<4>};
  kMirrors[static_cast<std::size_t>(image.channels() - 1)](image.row(y), image.width(), to);
}

class Normalizer {
 public:
  Normalizer(const ImageView& image, const NormalizeOptions& options, float* to)
      : image_(image), is_flipped_(options.flip == Flip::kHorizontal), to_(to) {
    for (std::int64_t c = 0; c < image.channels(); ++c) lines_.push_back(line_of(options, c));
  }

  void channels_first() {
    for (std::int64_t y = 0; y < image_.height(); ++y) {
      for (std::int64_t x = 0; x < image_.width(); x += kBlock) {
        planes_of(y, x, std::min(kBlock, image_.width() - x));
      }
    }
  }

  void channels_last() {
    std::vector<std::uint8_t> mirrored(static_cast<std::size_t>(image_.row_values()));
    std::vector<float> factors;
    std::vector<float> offsets;
    for (std::int64_t x = 0; x < image_.width(); ++x) {
      for (const Line& line : lines_) {
        factors.push_back(line.factor);
        offsets.push_back(line.offset);
      }
    }
    const std::int64_t n = image_.row_values();
    for (std::int64_t y = 0; y < image_.height(); ++y) {
      const std::uint8_t* row = image_.row(y);
      if (is_flipped_) {
        mirror_row(image_, y, mirrored.data());
        row = mirrored.data();
      }
      apply_lines(row, factors.data(), offsets.data(), to_ + y * n, n);
    }
  }

 private:
  /// `n` pixels of a row of the image.
  void planes_of(std::int64_t y, std::int64_t x, std::int64_t n) {
    const std::int64_t channels = image_.channels();
    const std::int64_t plane = image_.height() * image_.width();
    const std::int64_t target = y * image_.width() + (is_flipped_ ? image_.width() - x - n : x);
    const std::uint8_t* pixels = image_.row(y) + x * channels;
    alignas(64) std::uint8_t bytes[4][kBlock];
    if (channels == 3) {
      split_three(pixels, bytes[0], bytes[1], bytes[2], n);
    } else {
      for (std::int64_t c = 0; c < channels; ++c) split_any(pixels + c, channels, bytes[c], n);
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto& [factor, offset] = lines_[static_cast<std::size_t>(c)];
      (is_flipped_ ? apply_line_backwards : apply_line)(bytes[c], factor, offset,
                                                        to_ + c * plane + target, n);
    }
  }

  const ImageView& image_;
  bool is_flipped_;
  float* to_;
  std::vector<Line> lines_;
};

BRIGADE_VECTOR_CLONES
void scale_down(const std::uint8_t* __restrict from, float* __restrict to, std::int64_t n) {
  constexpr float kScale = 1.0F / 255;
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]) * kScale;
}

BRIGADE_VECTOR_CLONES
void scale_up(const float* __restrict from, std::uint8_t* __restrict to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float scaled = from[i] * 255.5F;
    const float limited = scaled > 0 ? (scaled < 255 ? scaled : 255) : 0;  // NaN becomes 0
    to[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(limited));
  }
}

}  // namespace

void normalize(const ImageView& image, const NormalizeOptions& options, std::span<float> to) {
  check_room(to, internal::checked_values(image.size(), image.channels()), "normalize");
  Normalizer normalizer(image, options, to.data());
  if (options.layout == Layout::kChannelsFirst) {
    normalizer.channels_first();
  } else {
    normalizer.channels_last();
  }
}

std::vector<float> normalize(const ImageView& image, const NormalizeOptions& options) {
  std::vector<float> to(internal::checked_values(image.size(), image.channels()));
  normalize(image, options, to);
  return to;
}

void to_channels_first(const FloatImageView& image, std::span<float> to) {
  check_room(to, internal::checked_values(image.size(), image.channels()), "to_channels_first");
  const std::int64_t plane = image.height() * image.width();
  for (std::int64_t y = 0; y < image.height(); ++y) {
    const float* row = image.row(y);
    for (std::int64_t c = 0; c < image.channels(); ++c) {
      float* target = to.data() + c * plane + y * image.width();
      for (std::int64_t x = 0; x < image.width(); ++x) target[x] = row[x * image.channels() + c];
    }
  }
}

FloatImage to_float(const ImageView& image) {
  FloatImage result(image.size(), image.channels());
  for (std::int64_t y = 0; y < image.height(); ++y) {
    scale_down(image.row(y), result.row(y), image.row_values());
  }
  return result;
}

Image to_uint8(const FloatImageView& image) {
  Image result(image.size(), image.channels());
  for (std::int64_t y = 0; y < image.height(); ++y) {
    scale_up(image.row(y), result.row(y), image.row_values());
  }
  return result;
}

}  // namespace brigade::image
