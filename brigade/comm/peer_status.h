#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/cluster/membership.h"

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

}  // namespace brigade::comm
