#include "brigade/data/formats/idx_header.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  const auto bytes = fuzz::text_of(data, size);
  for (int dimensions = 1; dimensions <= 4; ++dimensions) {
    fuzz::accepts([&] {
      const auto header = data::parse_idx_header(bytes, "fuzz", dimensions);
      std::uint64_t values = 1;
      for (const std::int64_t extent : header.shape) values *= static_cast<std::uint64_t>(extent);
      fuzz::require(values == header.value_bytes && header.bytes <= size);
    });
  }
  return 0;
}
