#include "brigade/image/image.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::image {

using base::str_cat;

std::string to_string(const Size& size) {
  return str_cat(size.height, " x ", size.width);
}

std::string to_string(const Window& window) {
  return str_cat(window.size(), " at row ", window.top, ", column ", window.left);
}

void check_window(const Window& window, const Size& size, std::string_view what) {
  const auto& [top, left, height, width] = window;
  const bool inside = top >= 0 && left >= 0 && height > 0 && width > 0 && height <= size.height &&
                      width <= size.width && top <= size.height - height &&
                      left <= size.width - width;
  if (inside) return;
  refuse(what, ": the window of ", window, " is not inside the image of ", size,
         " (height x width) or has no pixels");
}

std::string_view to_string(Layout layout) {
  return layout == Layout::kChannelsFirst ? "channels first" : "channels last";
}

namespace internal {

std::size_t checked_values(const Size& size, std::int64_t channels) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const auto& [height, width] = size;
  const bool fits = height >= 1 && width >= 1 && channels >= 1 && channels <= 4 &&
                    height <= kMost && width <= kMost / 4 && height <= kMost / (width * channels);
  if (!fits) {
    refuse("An image cannot be ", size, " (height x width) with ", channels,
           " channels: it has at least one pixel, 1 to 4 channels and at most 2^40 values");
  }
  return static_cast<std::size_t>(height * width * channels);
}

void check_pixels(std::string_view format, const Size& size, std::int64_t max_pixels) {
  if (size.height * size.width <= max_pixels) return;
  throw Error(ErrorCode::kResourceExhausted, format, ": the image of ", size,
              " has more pixels than the ", max_pixels, " that are allowed");
}

void check_values(std::size_t values, const Size& size, std::int64_t channels) {
  const std::size_t expected = checked_values(size, channels);
  if (values == expected) return;
  refuse("An image of ", size, " with ", channels, " channels has ", expected, " values, not ",
         values);
}

}  // namespace internal
}  // namespace brigade::image
