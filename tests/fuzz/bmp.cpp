#include "brigade/image/bmp.h"

#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  const auto bytes = fuzz::text_of(data, size);
  for (const std::int64_t channels : {0, 1, 3, 4}) {
    fuzz::accepts([&] { image::decode_bmp(bytes, {.channels = channels, .max_pixels = 1 << 18}); });
  }
  return 0;
}
