#pragma once

#include <chrono>
#include <optional>

namespace brigade::rpc {

/// Distinguishes a member that was paused (SIGSTOP, a suspended machine) from one whose peer was
/// lost. The host of the rendezvous declares a paused member lost and closes its connection; when
/// the member resumes, that connection is broken either way, and often breaks before the host's
/// last message was read. A member that was silent for the peer timeout must assume that it was
/// paused.
///
/// Thread-safety: none.
class PauseDetector {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  explicit PauseDetector(TimePoint now) : last_beat_(now) {}

  /// A heartbeat is sent. Heartbeats are due several times in each `peer_timeout`.
  void on_heartbeat(TimePoint now, Duration peer_timeout) {
    if (now - last_beat_ >= peer_timeout) {
      pause_ = now - last_beat_;
      resumed_at_ = now;
    }
    last_beat_ = now;
  }

  /// How long this process was silent, if a connection that breaks now breaks because of that: the
  /// silence lasted for the peer timeout, and ended at most the peer timeout ago.
  std::optional<Duration> pause_before(TimePoint now, Duration peer_timeout) const {
    if (now - last_beat_ >= peer_timeout) return now - last_beat_;
    if (pause_ > Duration::zero() && now - resumed_at_ <= peer_timeout) return pause_;
    return std::nullopt;
  }

 private:
  TimePoint last_beat_;
  Duration pause_{0};  // the latest; zero: none
  TimePoint resumed_at_;
};

}  // namespace brigade::rpc
