#include "brigade/image/png.h"

#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  const auto bytes = fuzz::text_of(data, size);
  for (const std::int64_t channels : {0, 1, 3, 4}) {
    fuzz::accepts([&] {
      const auto image = image::decode_png(bytes, {.channels = channels, .max_pixels = 1 << 18});
      fuzz::require(channels == 0 || image.channels() == channels);
      fuzz::require(image::decode_png(image::encode_png(image)) == image);
    });
  }
  return 0;
}
