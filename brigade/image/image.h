#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace brigade::image {

/// Height and width of an image, in pixels. TensorFlow's order: height first.
struct Size {
  std::int64_t height = 0;
  std::int64_t width = 0;
  friend bool operator==(const Size&, const Size&) = default;
};

/// "375 x 500", height first.
std::string to_string(const Size& size);

/// A rectangle of an image: rows [top, top + height), columns [left, left + width).
struct Window {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  Size size() const { return {height, width}; }
  friend bool operator==(const Window&, const Window&) = default;
};

/// "7 x 8 at row 3, column 0".
std::string to_string(const Window& window);

/// Throws kInvalidArgument, naming `what`, unless `window` has pixels and is inside an image of
/// `size`.
void check_window(const Window& window, const Size& size, std::string_view what);

/// The memory layout of an image's values.
enum class Layout {
  kChannelsFirst,  ///< One plane per channel, [C, H, W], as libtorch's convolutions expect.
  kChannelsLast,   ///< A pixel's channels together, [H, W, C], as decoders return it.
};

/// "channels first" or "channels last".
std::string_view to_string(Layout layout);

namespace internal {
/// Throws kInvalidArgument unless all are at least 1 (channels at most 4) and the image has at
/// most 2^40 values; returns the number of values.
std::size_t checked_values(const Size& size, std::int64_t channels);
/// Throws kInvalidArgument unless there are as many values as the shape says.
void check_values(std::size_t values, const Size& size, std::int64_t channels);
/// Throws kResourceExhausted if the image in a file of this format has more than `max_pixels`.
void check_pixels(std::string_view format, const Size& size, std::int64_t max_pixels);
}  // namespace internal

/// A non-owning view of an image or of a window of one: rows of `width` pixels, each of `channels`
/// contiguous values, with `row_stride` values from one row to the next.
///
/// Thread-safety: a value; access is as safe as access to the pixels it refers to. It must not
/// outlive them.
template <class T>
class BasicImageView {
 public:
  BasicImageView() = default;
  BasicImageView(const T* values, const Size& size, std::int64_t channels, std::int64_t row_stride)
      : values_(values), size_(size), channels_(channels), row_stride_(row_stride) {}
  /// Pixels without gaps. Throws kInvalidArgument unless there are height x width x channels.
  BasicImageView(std::span<const T> values, const Size& size, std::int64_t channels)
      : BasicImageView(values.data(), size, channels, size.width * channels) {
    internal::check_values(values.size(), size, channels);
  }

  const Size& size() const { return size_; }
  std::int64_t height() const { return size_.height; }
  std::int64_t width() const { return size_.width; }
  std::int64_t channels() const { return channels_; }
  /// The first value of a row: `width() * channels()` of them follow.
  const T* row(std::int64_t y) const { return values_ + y * row_stride_; }
  const T& at(std::int64_t y, std::int64_t x, std::int64_t channel) const {
    return row(y)[x * channels_ + channel];
  }
  /// The number of contiguous values in one row.
  std::int64_t row_values() const { return size_.width * channels_; }

  /// A part of the image, without a copy. Throws kInvalidArgument unless `part` is inside the
  /// image.
  BasicImageView window(const Window& part) const {
    check_window(part, size_, "window");
    return {row(part.top) + part.left * channels_, part.size(), channels_, row_stride_};
  }

 private:
  const T* values_ = nullptr;
  Size size_;
  std::int64_t channels_ = 0;
  std::int64_t row_stride_ = 0;
};

/// An image: height x width x channels values without gaps, the channels of a pixel together.
/// Channels are 1 (gray), 2 (gray and alpha), 3 (RGB) or 4 (RGBA).
///
/// Thread-safety: a value: any number of readers, or one writer.
template <class T>
class BasicImage {
 public:
  /// An image without pixels.
  BasicImage() = default;
  /// All values 0. Throws kInvalidArgument unless every number is at least 1.
  BasicImage(const Size& size, std::int64_t channels)
      : size_(size), channels_(channels), values_(internal::checked_values(size, channels)) {}
  /// Throws kInvalidArgument unless there are height x width x channels values.
  BasicImage(const Size& size, std::int64_t channels, std::vector<T> values)
      : size_(size), channels_(channels), values_(std::move(values)) {
    internal::check_values(values_.size(), size, channels);
  }
  /// A copy of a view.
  explicit BasicImage(const BasicImageView<T>& view) : BasicImage(view.size(), view.channels()) {
    for (std::int64_t y = 0; y < height(); ++y) {
      std::copy_n(view.row(y), view.row_values(), row(y));
    }
  }

  const Size& size() const { return size_; }
  std::int64_t height() const { return size_.height; }
  std::int64_t width() const { return size_.width; }
  std::int64_t channels() const { return channels_; }
  const std::vector<T>& values() const& { return values_; }
  std::vector<T> values() && { return std::move(values_); }
  T* row(std::int64_t y) { return values_.data() + y * size_.width * channels_; }
  const T* row(std::int64_t y) const { return values_.data() + y * size_.width * channels_; }
  T& at(std::int64_t y, std::int64_t x, std::int64_t channel) {
    return row(y)[x * channels_ + channel];
  }
  const T& at(std::int64_t y, std::int64_t x, std::int64_t channel) const {
    return row(y)[x * channels_ + channel];
  }
  /// Size in memory, including the pixels.
  std::uint64_t byte_size() const { return sizeof *this + values_.capacity() * sizeof(T); }
  BasicImageView<T> view() const {
    return {values_.data(), size_, channels_, size_.width * channels_};
  }
  operator BasicImageView<T>() const { return view(); }  // NOLINT: implicit by design
  friend bool operator==(const BasicImage&, const BasicImage&) = default;

 private:
  Size size_;
  std::int64_t channels_ = 0;
  std::vector<T> values_;
};

/// The result of decoders: values 0 to 255.
using Image = BasicImage<std::uint8_t>;
using ImageView = BasicImageView<std::uint8_t>;
/// The result of resizing and color changes.
using FloatImage = BasicImage<float>;
using FloatImageView = BasicImageView<float>;

}  // namespace brigade::image
