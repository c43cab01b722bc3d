#include "brigade/summary/event.h"

#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  brigade::fuzz::accepts([&] {
    const auto event = brigade::summary::decode_event(brigade::fuzz::text_of(data, size));
    brigade::summary::encode_event(event);
  });
  return 0;
}
