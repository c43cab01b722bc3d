#pragma once

#include <functional>
#include <memory>
#include <string>

#include "brigade/rpc/protocol.h"

namespace grpc {
class Channel;
}

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
/// Thread-safety: `beat`, `leave`, `cancel` from any thread.
class JoinCall {
 public:
  struct Handlers {
    std::function<void(const Event&)> on_event;
    std::function<void(const MembershipEnd&)> on_end;
    std::function<void(const Closure&)> on_close;
  };
  virtual ~JoinCall() = default;  // cancels, and waits for the thread
  virtual void beat() = 0;
  virtual void leave() = 0;
  virtual void cancel() = 0;
};

std::unique_ptr<JoinCall> start_join_call(std::shared_ptr<grpc::Channel> channel,
                                          const Hello& hello, JoinCall::Handlers handlers);

}  // namespace brigade::rpc
