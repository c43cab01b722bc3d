#include "brigade/io/safetensors_header.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  const auto bytes = fuzz::text_of(data, size);
  fuzz::accepts([&] {
    const auto length = io::safetensors_header_length(bytes, size, "fuzz");
    const auto json = bytes.substr(io::kSafetensorsLengthBytes, length);
    const std::uint64_t data_bytes = size - io::kSafetensorsLengthBytes - length;
    const auto header = io::parse_safetensors_header(json, data_bytes, "fuzz");
    for (const auto& each : header.tensors) {
      fuzz::require(each.begin <= each.end && each.end <= data_bytes);
    }
    const auto written = io::write_safetensors_header(header);
    fuzz::require(io::parse_safetensors_header(written, data_bytes, "fuzz").tensors.size() ==
                  header.tensors.size());
  });
  return 0;
}
