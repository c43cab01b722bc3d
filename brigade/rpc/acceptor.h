#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "brigade/rpc/socket.h"

namespace brigade::rpc {

/// A socket that is listened on, and the port it got.
struct Listening {
  Socket socket;
  int port = 0;
};

/// Listens on the text that `listen_text` made ("127.0.0.1:2222", "[::]:0"); never on a port that
/// another program has. Throws kUnavailable, with the system's reason.
Listening listen_on(const std::string& text);

/// How the connections of members begin.
enum class Opening {
  kTls,   ///< with a key
  kHttp2  ///< without
};

struct AcceptorOptions {
  Opening opening = Opening::kHttp2;
  /// Where it listens, for the log.
  std::string address = {};
  /// So many connections are handed on at once, and then so many a second.
  std::size_t burst = 128;
  double per_second = 20;
  /// So many are kept that have not said anything yet, or that wait to be handed on. With more of
  /// them the one that has been silent for longest is closed.
  std::size_t most_waiting = 256;
  std::chrono::milliseconds patience = std::chrono::seconds(10);
};

/// Accepts connections on a thread of its own and hands on those that begin as a member's does, at
/// a limited rate; the others are closed, and where they come in a storm, the log says so. So
/// whoever connects to the port, however often, takes little time and few descriptors of this
/// process, and what serves the members' connections does not see them.
///
/// Thread-safety: none; `on_connection` is called on the acceptor's thread, with a descriptor that does
/// not block. The destructor returns when that thread has ended.
class Acceptor {
 public:
  using OnConnection = std::function<void(Socket)>;

  Acceptor(const AcceptorOptions& options, Socket listening, OnConnection on_connection);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace brigade::rpc
