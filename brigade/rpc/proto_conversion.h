#pragma once

#include "brigade/base/error.h"
#include "brigade/rpc/protocol.h"

namespace grpc {
class Status;
}
namespace brigade::rpc::proto {
class Caller;
class Hello;
class End;
class FromMember;
class Lost;
class Member;
class ToMember;
class Welcome;
}  // namespace brigade::rpc::proto

/// The border between what Brigade says and what gRPC and protobuf say.
namespace brigade::rpc {

proto::FromMember to_proto(const Hello& hello);
Hello from_proto(const proto::Hello& hello);

proto::ToMember to_proto(const Event& event);
proto::ToMember to_proto(const MembershipEnd& ending);
void fill(const Credential& caller, proto::Caller& to);
Credential from_proto(const proto::Caller& caller);
Welcome from_proto(const proto::Welcome& welcome);
cluster::Member from_proto(const proto::Member& member);
cluster::LostMember from_proto(const proto::Lost& lost);
MembershipEnd from_proto(const proto::End& end);

/// An error of ours as a status that a peer knows to be ours.
grpc::Status to_status(const Error& error);
/// Whether the status was made by `to_status`, not by gRPC on its way.
bool is_ours(const grpc::Status& status);
/// The error that a status is, whoever made it.
Error to_error(const grpc::Status& status);

}  // namespace brigade::rpc
