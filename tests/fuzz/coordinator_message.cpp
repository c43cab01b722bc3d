#include "brigade/ps/coordinator/coordinator_messages.h"
#include "brigade/ps/service_messages.h"
#include "tests/fuzz/target.h"

// The first byte chooses the message, as the number of a call does at a coordinator.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  if (size == 0) return 0;
  const auto bytes = fuzz::text_of(data + 1, size - 1);
  const auto message = [&] { return ps::decode_message(io::shared_bytes(std::string(bytes))); };
  fuzz::accepts([&] {
    switch (data[0] % 7) {
      case 0:
        return (void)ps::worker_join_of(ps::decode_state(bytes));
      case 1:
        return (void)ps::message_of<ps::WorkerGrant>(ps::decode_state(bytes));
      case 2:
        return (void)ps::message_of<ps::WorkerStatus>(ps::decode_state(bytes));
      case 3:
        return (void)ps::running_of(ps::decode_state(bytes));
      case 4:
        return (void)ps::take_request_of(message());
      case 5:
        return (void)ps::take_reply_of(message());
      default:
        return (void)ps::function_report_of(message());
    }
  });
  return 0;
}
