#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "brigade/base/handles.h"

namespace brigade::rpc {

/// A listening socket and its port.
struct Listening {
  base::FileDescriptor socket;
  int port = 0;
};

/// Listens on the text that `listen_text` made ("127.0.0.1:2222", "[::]:0"); never on a port that
/// another program has. Throws kUnavailable, with the system's reason.
Listening listen_on(const std::string& text);

/// The first bytes of a member's connection.
enum class Opening {
  kTls,   ///< with a key
  kHttp2  ///< without
};

struct AcceptorOptions {
  Opening opening = Opening::kHttp2;
  /// The address on which it listens, for the log.
  std::string address = {};
  /// A token bucket limits the connections that are passed on: its size and its rate.
  std::size_t burst = 128;
  double per_second = 20;
  /// The limit on connections that have sent nothing yet or wait to be passed on. Beyond it, the
  /// one that has been silent for longest is closed.
  std::size_t most_waiting = 256;
  std::chrono::milliseconds patience = std::chrono::seconds(10);
};

/// Accepts connections on its own thread and passes on those that begin as a member's connection
/// does, at a limited rate. It closes the others, and logs a warning if there are very many. So
/// unrelated clients that connect to the port, however often, take little time and few descriptors,
/// and never reach the server of the members' connections.
///
/// Thread-safety: none; `on_connection` is called on the acceptor's thread, with a descriptor that
/// does not block. The destructor returns when that thread has ended.
class Acceptor {
 public:
  using OnConnection = std::function<void(base::FileDescriptor)>;

  Acceptor(const AcceptorOptions& options, base::FileDescriptor listening,
           OnConnection on_connection);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace brigade::rpc
