// Replaces message_listener.cpp and message_client.cpp in builds without gRPC.
#include "brigade/base/error.h"
#include "brigade/rpc/message_service.h"

namespace brigade::rpc {
namespace {

[[noreturn]] void refuse_messages() {
  throw Error(ErrorCode::kUnimplemented,
              "gRPC is not built into this program, so it cannot call other processes: install "
              "libgrpc++-dev and protobuf-compiler-grpc and configure again.");
}

}  // namespace

std::unique_ptr<MessageListener> listen_for_messages(MessageService&,
                                                     const MessageListenerOptions&) {
  refuse_messages();
}

std::unique_ptr<MessageClient> make_message_client(const std::string&,
                                                   const std::optional<cluster::ClusterKey>&,
                                                   const MessageClientOptions&) {
  refuse_messages();
}

}  // namespace brigade::rpc
