#include "brigade/data/core/codec.h"

#include "tests/fuzz/target.h"

namespace {

using namespace brigade;

/// Accepted input is written as exactly the bytes that it was read from.
template <class T>
void check(std::string_view bytes) {
  fuzz::accepts([&] { fuzz::require(data::encode(data::decode<T>(bytes)) == bytes); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::text_of(data, size);
  check<std::vector<std::int64_t>>(bytes);
  check<std::vector<std::vector<std::string>>>(bytes);
  check<std::pair<std::string, std::optional<float>>>(bytes);
  check<std::tuple<bool, std::array<std::uint16_t, 3>, std::vector<bool>>>(bytes);
  return 0;
}
