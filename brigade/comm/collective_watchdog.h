#pragma once

#include <chrono>
#include <string_view>

#include "brigade/cluster/membership.h"
#include "brigade/comm/peer_status.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/concurrency/cancel_token.h"

namespace brigade::comm {

/// Measures how long one collective waits: logs once which members are late, and knows when the
/// timeout has passed.
///
/// Thread-safety: one thread.
class StragglerReport {
 public:
  StragglerReport(std::chrono::milliseconds slow_after, std::chrono::milliseconds timeout);

  bool is_over() const;
  /// Whether it is time to call `report`, once.
  bool is_due() const;
  /// Writes "<what> has waited 5000 ms for <late>" to the log.
  void report(std::string_view what, std::string_view late);
  /// Throws kDeadlineExceeded: these members did not make the call in time.
  [[noreturn]] void fail(std::string_view what, std::string_view late) const;

 private:
  const std::chrono::steady_clock::time_point start_;
  const std::chrono::milliseconds slow_after_;
  const std::chrono::milliseconds timeout_;
  bool was_reported_ = false;
};

/// Watches one wait of a collective between processes. The waiting thread calls `check` at least
/// ten times a second.
///
/// Thread-safety: one thread.
class CollectiveWatchdog {
 public:
  /// All arguments must outlive this. `what` is the collective's name.
  CollectiveWatchdog(const cluster::Membership& membership, PeerStatus& peer_status,
                     const CommunicationOptions& options, std::string_view what);

  /// Throws kUnavailable if a member is lost, and kDeadlineExceeded when the timeout has passed;
  /// both name the members. Logs once which members are late.
  void check();

 private:
  const cluster::Membership& membership_;
  PeerStatus& peer_status_;
  const CommunicationOptions& options_;
  const std::string_view what_;
  const concurrency::CancelToken lost_;
  StragglerReport report_;
};

}  // namespace brigade::comm
