// Replaces rendezvous_server.cpp and remote_membership.cpp in builds without gRPC.
#include "brigade/base/error.h"
#include "brigade/rpc/remote.h"

namespace brigade::rpc {
namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorCode::kUnimplemented,
              "gRPC is not built into this program, so it supports no cluster of more than one "
              "process: install libgrpc++-dev and protobuf-compiler-grpc and configure again.");
}

}  // namespace

bool is_built_in() {
  return false;
}

std::unique_ptr<RendezvousServer> make_remote_server(const RendezvousServerOptions&,
                                                     const cluster::Member&) {
  refuse();
}

std::shared_ptr<cluster::Membership> join_remote(const cluster::ClusterConfig&,
                                                 const JoinOptions&) {
  refuse();
}

}  // namespace brigade::rpc
