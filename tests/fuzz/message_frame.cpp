#include "brigade/rpc/message_frame.h"

#include <algorithm>
#include <vector>

#include "tests/fuzz/target.h"

// The first byte says where the network has divided the frame.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  if (size == 0) return 0;
  const auto bytes = fuzz::text_of(data + 1, size - 1);
  const std::size_t cut = std::min<std::size_t>(data[0], bytes.size());
  const grpc::Slice slices[] = {{bytes.data(), cut}, {bytes.data() + cut, bytes.size() - cut}};
  fuzz::accepts([&] {
    const rpc::ReceivedFrame frame(grpc::ByteBuffer(slices, 2));
    if (frame.is_header()) return;
    std::vector<char> copy(frame.size());
    frame.copy_to(copy);
    fuzz::require(frame.size() < bytes.size());
    fuzz::require(std::equal(copy.begin(), copy.end(), bytes.end() - frame.size()));
  });
  return 0;
}
