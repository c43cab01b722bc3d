#pragma once

#include <string_view>

#include "brigade/cluster/membership.h"
#include "brigade/comm/exchange/straggler_report.h"
#include "brigade/comm/peer_status.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/concurrency/cancel_token.h"

namespace brigade::comm {

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
