#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "brigade/concurrency/mutex.h"
#include "brigade/rpc/proto/rendezvous.grpc.pb.h"
#include "brigade/rpc/protocol.h"

namespace brigade::rpc {

/// How the connection of a Join call ended.
struct Closure {
  enum class Kind {
    kEnded,        ///< as planned, by either side
    kUnavailable,  ///< no connection, or a broken one
    kStranger      ///< another kind of server answered
  } kind = Kind::kEnded;
  std::string text = {};
};

/// The client side of one Join call, with its own thread: sends Hello and receives events. The
/// handlers are called on that thread, `on_close` last.
///
/// Thread-safety: `send_heartbeat`, `leave`, `cancel` from any thread.
class JoinCall {
 public:
  struct Handlers {
    std::function<void(const RendezvousEvent&)> on_event;
    std::function<void(const MembershipEnd&)> on_end;
    std::function<void(const Closure&)> on_close;
  };

  JoinCall(std::shared_ptr<grpc::Channel> channel, const Hello& hello, Handlers handlers);
  /// Cancels, and waits for the thread.
  ~JoinCall();
  JoinCall(const JoinCall&) = delete;
  JoinCall& operator=(const JoinCall&) = delete;

  void send_heartbeat();
  void leave();
  void cancel() { context_.TryCancel(); }

 private:
  void run(const Hello& hello);
  void write(const proto::FromMember& message);
  void handle(const proto::ToMember& message);

  std::unique_ptr<proto::Rendezvous::Stub> stub_;
  const Handlers handlers_;
  grpc::ClientContext context_;
  concurrency::Mutex mutex_;  // one writer at a time
  grpc::ClientReaderWriter<proto::FromMember, proto::ToMember>* stream_ BRIGADE_GUARDED_BY(mutex_) =
      nullptr;
  std::jthread thread_;
};

}  // namespace brigade::rpc
