#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

/// Detects storms of connections that are not members', for warnings in the log.
///
/// Thread-safety: none.
class ConnectionStormDetector {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// This many in a second are a storm: more than a browser, a port scanner or a member with
  /// another key makes.
  static constexpr std::int64_t kStorm = 200;
  /// A storm is over after this long with fewer.
  static constexpr std::chrono::seconds kCalm{5};

  /// `address` is the one that they connect to, for the text.
  explicit ConnectionStormDetector(std::string address) : address_(std::move(address)) {}

  /// Records a connection that was closed because it did not begin as a member's. `peer` is its
  /// address.
  void record(TimePoint now, const std::string& peer);
  /// The text to log by now, if a storm has begun or is over. Call it regularly.
  std::optional<std::string> report(TimePoint now);

 private:
  std::string address_;
  std::string last_peer_;
  TimePoint second_begun_;      // the count's
  std::int64_t in_second_ = 0;  // so far
  std::int64_t in_storm_ = 0;
  std::optional<TimePoint> storm_begun_;
  TimePoint storm_seen_;  // when there were last kStorm in a second
  bool is_reported_ = false;
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
