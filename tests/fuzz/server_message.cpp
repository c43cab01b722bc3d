#include "brigade/ps/pair_messages.h"
#include "brigade/ps/service_messages.h"
#include "tests/fuzz/target.h"

// The first byte chooses the message, as the number of a call does on a server.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  if (size == 0) return 0;
  const auto bytes = fuzz::text_of(data + 1, size - 1);
  const auto message = [&] { return ps::decode_message(io::shared_bytes(std::string(bytes))); };
  fuzz::accepts([&] {
    switch (data[0] % 15) {
      case 0:
        return (void)ps::join_request_of(ps::decode_state(bytes));
      case 1:
        return (void)ps::message_of<ps::Grant>(ps::decode_state(bytes));
      case 2:
        return (void)ps::message_of<ps::ServerStatus>(ps::decode_state(bytes));
      case 3:
        return (void)ps::message_of<ps::BeginStepRequest>(ps::decode_state(bytes));
      case 4:
        return (void)ps::message_of<ps::BeginStepReply>(ps::decode_state(bytes));
      case 5:
        return (void)ps::create_request_of(message());
      case 6:
        return (void)ps::assign_request_of(message());
      case 7:
        return (void)ps::exchange_request_of(message());
      case 8:
        return (void)ps::exchange_reply_of(message());
      case 10:
        return (void)ps::message_of<ps::RoleReply>(ps::decode_state(bytes));
      case 11:
        return (void)ps::message_of<ps::Vote>(ps::decode_state(bytes));
      case 12:
        return (void)ps::follow_request_of(message());
      case 13:
        return (void)ps::follow_reply_of(message());
      default:
        return (void)ps::names_of(message().header);
    }
  });
  return 0;
}
