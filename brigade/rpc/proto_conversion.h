#pragma once

#include <string>
#include <string_view>

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

/// Conversions between Brigade's types and those of gRPC and protobuf.
namespace brigade::rpc {

proto::FromMember to_proto(const Hello& hello);
Hello from_proto(const proto::Hello& hello);

proto::ToMember to_proto(const RendezvousEvent& event);
proto::ToMember to_proto(const MembershipEnd& ending);
void fill(const Credential& caller, proto::Caller& to);
Credential from_proto(const proto::Caller& caller);
Welcome from_proto(const proto::Welcome& welcome);
cluster::Member from_proto(const proto::Member& member);
cluster::LostMember from_proto(const proto::Lost& lost);
MembershipEnd from_proto(const proto::End& end);

/// Converts a Brigade error to a status that is marked as Brigade's. `kind` distinguishes types of
/// errors that have the same code.
grpc::Status to_status(const Error& error, std::string_view kind = {});
/// Whether the status was made by `to_status`, not by gRPC itself.
bool is_ours(const grpc::Status& status);
/// The `kind` of a status that `to_status` made.
std::string kind_of(const grpc::Status& status);
/// Converts any status to an error.
Error to_error(const grpc::Status& status);

}  // namespace brigade::rpc
