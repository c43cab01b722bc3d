#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/cluster/membership.h"

namespace brigade::comm {

/// What the members of a group tell each other through the membership's store when a collective
/// does not go well: that one has left, why one gave up, who has come to the call that is late. In
/// a collective that goes well nothing is written.
///
/// Thread-safety: one thread at a time.
class PeerStatus {
 public:
  /// `name` is the prefix of its keys.
  PeerStatus(std::shared_ptr<cluster::Membership> membership, std::string name);

  /// Counts collectives.
  void begin_call() { ++calls_; }
  /// The members that have not said that they are in this call, after saying so oneself and giving
  /// the others a moment to do the same.
  std::string describe_late_members();

  void leave() noexcept;
  void give_up(const Error& reason) noexcept;

  /// Why a call waits in vain: a member that has given up or has left. Asks the store for one
  /// number, as long as none has.
  std::optional<Error> find_reason(std::string_view what);

  /// The error to throw where connections broke with `text`: it names the member that is lost, has
  /// given up or has left. Waits a while for one of these to become known.
  Error explain(std::string_view what, std::string_view text);

 private:
  std::string key(std::string_view note, int rank) const;
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
