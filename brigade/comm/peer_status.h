#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/cluster/membership.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/concurrency/cancel_token.h"

namespace brigade::comm {

/// The error of a call that waits for a member that has destroyed its communicator.
Error has_left_error(std::string_view what, const cluster::Member& member);

/// What the members of a group report to each other through the membership's store when a
/// collective is late or fails: which members have left, why one gave up, and which have reached
/// the late call. A collective that succeeds in time writes nothing.
///
/// Thread-safety: one thread at a time.
class PeerStatus {
 public:
  /// `name` is the prefix of its keys.
  PeerStatus(std::shared_ptr<cluster::Membership> membership, std::string name);

  /// Counts collectives.
  void begin_call() { ++calls_; }
  /// Reports that this member is in the current call, waits a moment for the others to do the same,
  /// and returns the names of the members that have not.
  std::string describe_late_members();

  void leave() noexcept;
  void give_up(const Error& reason) noexcept;

  /// The error to throw if a member has given up or left, so that a call would wait forever. Reads
  /// only one number from the store as long as no member has.
  std::optional<Error> find_reason(std::string_view what);

  /// The error to throw if connections broke with `text`. It names the member that is lost, has
  /// given up or has left; waits a while until one of these is known.
  Error explain(std::string_view what, std::string_view text);

 private:
  std::string key(std::string_view field, int rank) const;
  std::int64_t count(const std::string& key) { return membership_->add(key, 0); }
  std::string late_members();
  std::optional<Error> known_reason(std::string_view what);

  const std::shared_ptr<cluster::Membership> membership_;
  const std::string name_;
  std::int64_t calls_ = 0;
  std::int64_t reported_calls_ = 0;
  bool has_given_up_ = false;
};

/// Measures how long one collective waits: logs once which members are late, and knows when the
/// timeout has passed.
///
/// Thread-safety: one thread.
class StragglerReport {
 public:
  StragglerReport(std::chrono::milliseconds slow_after, std::chrono::milliseconds timeout);

  bool is_over() const { return waited() >= timeout_; }
  /// Whether it is time to call `report`, once.
  bool is_due() const { return !was_reported_ && waited() >= slow_after_; }
  /// Writes "<what> has waited 5000 ms for <late>" to the log.
  void report(std::string_view what, std::string_view late);
  /// Throws kDeadlineExceeded: these members did not make the call in time.
  [[noreturn]] void fail(std::string_view what, std::string_view late) const;

 private:
  std::chrono::steady_clock::duration waited() const {
    return std::chrono::steady_clock::now() - start_;
  }

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
  const std::string_view what_;
  const concurrency::CancelToken lost_;
  StragglerReport report_;
};

}  // namespace brigade::comm
