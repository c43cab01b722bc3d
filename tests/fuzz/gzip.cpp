#include "brigade/io/compression.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMost = 1 << 20;
  brigade::fuzz::accepts([&] {
    const auto content = brigade::io::gunzip(brigade::fuzz::text_of(data, size), "fuzz.gz", kMost);
    brigade::fuzz::require(content.size() <= kMost);
  });
  return 0;
}
