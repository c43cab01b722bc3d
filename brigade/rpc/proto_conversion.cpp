#include "brigade/rpc/proto_conversion.h"

#include <grpcpp/support/status.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "brigade/rpc/proto/rendezvous.pb.h"

namespace brigade::rpc {
namespace {

// Begins the details of Brigade's statuses; those of gRPC's own are empty. The kind follows.
constexpr std::string_view kOurs = "brigade:";

void fill(const cluster::Member& member, proto::Member& to) {
  to.set_rank(member.rank);
  to.set_job(member.task.job);
  to.set_task(member.task.index);
  to.set_host(member.host);
  to.set_pid(member.pid);
  auto& identity = *to.mutable_identity();
  identity.set_kernel(member.identity.kernel);
  identity.set_processes(member.identity.processes);
  identity.set_network(member.identity.network);
  to.set_address(member.address);
}

// An unknown kind from a later build counts as the most general one.
cluster::LossKind loss_kind(int kind) {
  using cluster::LossKind;
  for (const LossKind known : {LossKind::kSilent, LossKind::kEnded}) {
    if (static_cast<int>(known) == kind) return known;
  }
  return LossKind::kClosed;
}

proto::RankHolder proto_holder(const std::optional<RankHolder>& holder) {
  if (!holder) return proto::RANK_HOLDER_NONE;
  return *holder == RankHolder::kPresent ? proto::RANK_HOLDER_PRESENT : proto::RANK_HOLDER_GONE;
}

std::optional<RankHolder> rank_holder(proto::RankHolder holder) {
  if (holder == proto::RANK_HOLDER_PRESENT) return RankHolder::kPresent;
  if (holder == proto::RANK_HOLDER_GONE) return RankHolder::kGone;
  return std::nullopt;
}

struct Filler {
  proto::ToMember& to;
  void operator()(const Welcome& welcome) const {
    auto& message = *to.mutable_welcome();
    fill(welcome.credential, *message.mutable_caller());
    message.set_peer_timeout_ms(welcome.peer_timeout.count());
    fill(welcome.host, *message.mutable_host());
  }
  void operator()(const AllJoined& joined) const {
    auto& message = *to.mutable_all_joined();
    for (const auto& member : joined.members) fill(member, *message.add_members());
  }
  void operator()(const HeartbeatReply& reply) const {
    to.mutable_heartbeat_reply()->mutable_missing()->Add(reply.missing.begin(),
                                                         reply.missing.end());
  }
  void operator()(const cluster::LostMember& lost) const {
    fill(lost.member, *to.mutable_lost()->mutable_member());
    to.mutable_lost()->set_reason(lost.reason);
    to.mutable_lost()->set_kind(static_cast<int>(lost.kind));
  }
};

// In the order of ErrorCode.
constexpr std::array kStatusCodes = {grpc::StatusCode::INVALID_ARGUMENT,
                                     grpc::StatusCode::NOT_FOUND,
                                     grpc::StatusCode::ALREADY_EXISTS,
                                     grpc::StatusCode::FAILED_PRECONDITION,
                                     grpc::StatusCode::OUT_OF_RANGE,
                                     grpc::StatusCode::UNAVAILABLE,
                                     grpc::StatusCode::DEADLINE_EXCEEDED,
                                     grpc::StatusCode::CANCELLED,
                                     grpc::StatusCode::ABORTED,
                                     grpc::StatusCode::DATA_LOSS,
                                     grpc::StatusCode::RESOURCE_EXHAUSTED,
                                     grpc::StatusCode::PERMISSION_DENIED,
                                     grpc::StatusCode::UNIMPLEMENTED,
                                     grpc::StatusCode::INTERNAL};
static_assert(kStatusCodes.size() == static_cast<std::size_t>(ErrorCode::kInternal) + 1);

grpc::StatusCode status_code(ErrorCode code) {
  const auto index = static_cast<std::size_t>(code);
  return index < kStatusCodes.size() ? kStatusCodes[index] : grpc::StatusCode::INTERNAL;
}

ErrorCode error_code(grpc::StatusCode code) {
  if (code == grpc::StatusCode::UNAUTHENTICATED) return ErrorCode::kPermissionDenied;
  const auto found = std::ranges::find(kStatusCodes, code);
  return found == kStatusCodes.end() ? ErrorCode::kInternal
                                     : static_cast<ErrorCode>(found - kStatusCodes.begin());
}

}  // namespace

proto::FromMember to_proto(const Hello& hello) {
  proto::FromMember message;
  auto& to = *message.mutable_hello();
  to.set_protocol(hello.protocol);
  fill(hello.member, *to.mutable_member());
  to.set_world_size(hello.world_size);
  to.set_generation(hello.generation);
  to.set_start_timeout_ms(hello.start_timeout.count());
  to.set_waited_ms(hello.waited.count());
  return message;
}

Hello from_proto(const proto::Hello& hello) {
  return {.protocol = hello.protocol(),
          .member = from_proto(hello.member()),
          .world_size = hello.world_size(),
          .generation = hello.generation(),
          .start_timeout = std::chrono::milliseconds(hello.start_timeout_ms()),
          .waited = std::chrono::milliseconds(hello.waited_ms())};
}

proto::ToMember to_proto(const RendezvousEvent& event) {
  proto::ToMember message;
  std::visit(Filler{message}, event);
  return message;
}

proto::ToMember to_proto(const MembershipEnd& ending) {
  proto::ToMember message;
  auto& end = *message.mutable_end();
  end.set_failed(ending.error.has_value());
  if (ending.error) {
    end.set_code(static_cast<int>(ending.error->code()));
    end.set_message(ending.error->what());
  }
  end.set_may_retry(ending.may_retry);
  end.mutable_missing()->Add(ending.missing.begin(), ending.missing.end());
  end.set_waited_ms(ending.waited.count());
  end.set_rank_holder(proto_holder(ending.rank_holder));
  return message;
}

void fill(const Credential& caller, proto::Caller& to) {
  to.set_member_id(caller.id);
  to.set_token(caller.token);
}

Credential from_proto(const proto::Caller& caller) {
  return {caller.member_id(), caller.token()};
}

Welcome from_proto(const proto::Welcome& welcome) {
  return {from_proto(welcome.caller()), std::chrono::milliseconds(welcome.peer_timeout_ms()),
          from_proto(welcome.host())};
}

cluster::Member from_proto(const proto::Member& member) {
  return {.rank = member.rank(),
          .task = {member.job(), member.task()},
          .host = member.host(),
          .pid = member.pid(),
          .identity = {.kernel = member.identity().kernel(),
                       .processes = member.identity().processes(),
                       .network = member.identity().network()},
          .address = member.address()};
}

cluster::LostMember from_proto(const proto::Lost& lost) {
  return {from_proto(lost.member()), lost.reason(), loss_kind(lost.kind())};
}

MembershipEnd from_proto(const proto::End& end) {
  MembershipEnd ending{.may_retry = end.may_retry(),
                       .missing = {end.missing().begin(), end.missing().end()},
                       .waited = std::chrono::milliseconds(end.waited_ms()),
                       .rank_holder = rank_holder(end.rank_holder())};
  if (end.failed()) ending.error = Error(static_cast<ErrorCode>(end.code()), end.message());
  return ending;
}

grpc::Status to_status(const Error& error, std::string_view kind) {
  return {status_code(error.code()), error.what(), std::string(kOurs).append(kind)};
}

bool is_ours(const grpc::Status& status) {
  return status.error_details().starts_with(kOurs);
}

std::string kind_of(const grpc::Status& status) {
  return status.error_details().substr(kOurs.size());
}

Error to_error(const grpc::Status& status) {
  return Error(error_code(status.error_code()), status.error_message());
}

}  // namespace brigade::rpc
