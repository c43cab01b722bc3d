#include "brigade/io/state_json.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  brigade::fuzz::accepts([&] {
    const auto tree = brigade::io::from_json(brigade::fuzz::text_of(data, size));
    const auto written = brigade::io::to_json(tree);
    brigade::fuzz::require(brigade::io::from_json(written.json, written.arrays) == tree);
  });
  return 0;
}
