#include "brigade/rpc/join_call.h"

#include <utility>

#include "brigade/rpc/proto_conversion.h"

namespace brigade::rpc {
namespace {

Closure closure_of(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
    case grpc::StatusCode::CANCELLED:
      return {Closure::Kind::kEnded, status.error_message()};
    case grpc::StatusCode::UNIMPLEMENTED:
      return {Closure::Kind::kStranger, status.error_message()};
    default:
      return {Closure::Kind::kUnavailable, status.error_message()};
  }
}

AllJoined joined_of(const proto::AllJoined& joined) {
  AllJoined event;
  for (const auto& member : joined.members()) event.members.push_back(from_proto(member));
  return event;
}

}  // namespace

JoinCall::JoinCall(std::shared_ptr<grpc::Channel> channel, const Hello& hello, Handlers handlers)
    : stub_(proto::Rendezvous::NewStub(std::move(channel))),
      handlers_(std::move(handlers)),
      thread_([this, hello] { run(hello); }) {}

JoinCall::~JoinCall() {
  context_.TryCancel();
  thread_.join();
}

void JoinCall::send_heartbeat() {
  proto::FromMember message;
  message.mutable_heartbeat();
  write(message);
}

void JoinCall::leave() {
  proto::FromMember message;
  message.mutable_leave();
  write(message);
}

void JoinCall::run(const Hello& hello) {
  // Connects, which may take long, so it is done on this thread.
  auto stream = stub_->Join(&context_);
  {
    const concurrency::MutexLock lock(mutex_);
    stream_ = stream.get();
  }
  write(to_proto(hello));
  proto::ToMember message;
  while (stream->Read(&message)) handle(message);
  {
    const concurrency::MutexLock lock(mutex_);
    stream_ = nullptr;
  }
  handlers_.on_close(closure_of(stream->Finish()));
}

void JoinCall::write(const proto::FromMember& message) {
  const concurrency::MutexLock lock(mutex_);
  if (stream_ != nullptr) stream_->Write(message);  // a failure shows in Read
}

void JoinCall::handle(const proto::ToMember& message) {
  switch (message.kind_case()) {
    case proto::ToMember::kWelcome:
      return handlers_.on_event(from_proto(message.welcome()));
    case proto::ToMember::kAllJoined:
      return handlers_.on_event(joined_of(message.all_joined()));
    case proto::ToMember::kHeartbeatReply:
      return handlers_.on_event(HeartbeatReply{{message.heartbeat_reply().missing().begin(),
                                                message.heartbeat_reply().missing().end()}});
    case proto::ToMember::kLost:
      return handlers_.on_event(from_proto(message.lost()));
    case proto::ToMember::kEnd:
      return handlers_.on_end(from_proto(message.end()));
    case proto::ToMember::KIND_NOT_SET:
      return;
  }
}

}  // namespace brigade::rpc
