#include "brigade/rpc/join_call.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <thread>
#include <utility>

#include "brigade/concurrency/mutex.h"
#include "brigade/rpc/proto/rendezvous.grpc.pb.h"
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

class GrpcJoinCall final : public JoinCall {
 public:
  GrpcJoinCall(std::shared_ptr<grpc::Channel> channel, const Hello& hello, Handlers handlers)
      : stub_(proto::Rendezvous::NewStub(std::move(channel))),
        handlers_(std::move(handlers)),
        thread_([this, hello] { run(hello); }) {}

  ~GrpcJoinCall() override {
    context_.TryCancel();
    thread_.join();
  }

  void beat() override {
    proto::FromMember message;
    message.mutable_beat();
    write(message);
  }

  void leave() override {
    proto::FromMember message;
    message.mutable_leave();
    write(message);
  }

  void cancel() override { context_.TryCancel(); }

 private:
  void run(const Hello& hello) {
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

  void write(const proto::FromMember& message) {
    const concurrency::MutexLock lock(mutex_);
    if (stream_ != nullptr) stream_->Write(message);  // a failure shows in Read
  }

  void handle(const proto::ToMember& message) {
    switch (message.kind_case()) {
      case proto::ToMember::kWelcome:
        return handlers_.on_event(from_proto(message.welcome()));
      case proto::ToMember::kAllJoined:
        return handlers_.on_event(joined_of(message.all_joined()));
      case proto::ToMember::kHeard:
        return handlers_.on_event(
            Heard{{message.heard().missing().begin(), message.heard().missing().end()}});
      case proto::ToMember::kLost:
        return handlers_.on_event(from_proto(message.lost()));
      case proto::ToMember::kEnd:
        return handlers_.on_end(from_proto(message.end()));
      case proto::ToMember::KIND_NOT_SET:
        return;
    }
  }

  static AllJoined joined_of(const proto::AllJoined& joined) {
    AllJoined event;
    for (const auto& member : joined.members()) event.members.push_back(from_proto(member));
    return event;
  }

  std::unique_ptr<proto::Rendezvous::Stub> stub_;
  const Handlers handlers_;
  grpc::ClientContext context_;
  concurrency::Mutex mutex_;  // one writer at a time
  grpc::ClientReaderWriter<proto::FromMember, proto::ToMember>* stream_ BRIGADE_GUARDED_BY(mutex_) =
      nullptr;
  std::jthread thread_;
};

}  // namespace

std::unique_ptr<JoinCall> start_join_call(std::shared_ptr<grpc::Channel> channel,
                                          const Hello& hello, JoinCall::Handlers handlers) {
  return std::make_unique<GrpcJoinCall>(std::move(channel), hello, std::move(handlers));
}

}  // namespace brigade::rpc
