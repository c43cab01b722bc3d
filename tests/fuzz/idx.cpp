#include "brigade/data/formats/idx_header.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  const auto bytes = fuzz::text_of(data, size);
  for (int dimensions = 1; dimensions <= 4; ++dimensions) {
    fuzz::accepts([&] {
      const auto content = data::parse_idx_bytes(bytes, "fuzz", dimensions);
      std::uint64_t values = 1;
      for (const std::int64_t extent : content.shape) values *= static_cast<std::uint64_t>(extent);
      fuzz::require(values == content.values.size());
    });
  }
  return 0;
}
