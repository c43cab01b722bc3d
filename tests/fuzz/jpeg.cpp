#include "brigade/image/jpeg.h"

#include "tests/fuzz/target.h"

namespace {

constexpr std::int64_t kMostPixels = 1 << 18;

/// The quarter in the middle, which is decoded by skipping its surroundings.
brigade::image::Window middle_of(const brigade::image::Size& size) {
  return {.top = size.height / 4,
          .left = size.width / 4,
          .height = (size.height + 1) / 2,
          .width = (size.width + 1) / 2};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  const auto bytes = fuzz::text_of(data, size);
  image::Size whole;
  if (!fuzz::accepts([&] { whole = image::jpeg_size(bytes); })) return 0;
  fuzz::accepts([&] {
    fuzz::require(image::decode_jpeg(bytes, {.max_pixels = kMostPixels}).size() == whole);
  });
  fuzz::accepts(
      [&] { image::decode_jpeg(bytes, {.channels = 3, .ratio = 8, .max_pixels = kMostPixels}); });
  fuzz::accepts([&] {
    const auto window = middle_of(whole);
    const auto part =
        image::decode_jpeg(bytes, {.channels = 3, .window = window, .max_pixels = kMostPixels});
    fuzz::require(part.size() == window.size());
  });
  return 0;
}
