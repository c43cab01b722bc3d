#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/cluster/membership.h"
#include "brigade/comm/peer_status.h"
#include "brigade/concurrency/cancel_token.h"

namespace brigade::comm {

/// One rank's slot of a SharedBarrier, in shared memory. Zeros at first.
struct alignas(64) BarrierSlot {
  std::atomic<std::uint32_t> arrivals;
  std::atomic<std::uint32_t> sleepers;  ///< how many sleep until `arrivals` changes
  std::atomic<std::uint32_t> has_left;
};

/// Why a rank gave up, for the others; in shared memory, zeros at first. The first rank to give up
/// writes it.
struct alignas(64) BarrierFailure {
  enum : std::uint32_t { kNone, kWriting, kWritten };
  std::atomic<std::uint32_t> state;
  std::int32_t rank;
  std::int32_t code;
  std::array<char, 1000> text;
};

struct SharedBarrierOptions {
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::chrono::milliseconds slow_after = std::chrono::seconds(5);
  /// How long to poll before sleeping; use 0 if there are more processes than cores.
  std::chrono::microseconds spin{0};
};

/// A barrier between processes over shared memory. A waiting rank polls for a while, then sleeps in
/// the kernel until the others have arrived. It is released if a member is lost, gives up or
/// leaves.
///
/// Thread-safety: one call at a time per rank.
class SharedBarrier {
 public:
  /// `slots[rank]` and `failure` are in the shared segment, which outlives this.
  SharedBarrier(std::span<BarrierSlot> slots, BarrierFailure& failure,
                std::shared_ptr<cluster::Membership> membership, SharedBarrierOptions options);
  /// Notifies the others that this rank has left.
  ~SharedBarrier();

  void set_spin(std::chrono::microseconds spin) { options_.spin = spin; }

  /// Returns when every rank has arrived as often as this one. Throws kUnavailable, naming the
  /// member, if one is lost; kDeadlineExceeded, naming the missing members; the reason of a rank
  /// that gave up; kFailedPrecondition if one has left. `what` names the call, for messages.
  void arrive_and_wait(std::string_view what);

  /// Waits for a moment, in which a loss that another rank has seen is known here, too. Throws
  /// kUnavailable, naming the member, if one is lost.
  void throw_if_member_is_lost(std::string_view what) const;

  /// Makes all other ranks' calls fail with this reason, those that wait and later ones. Whatever
  /// it is, they name the member if one is lost.
  void give_up(const Error& reason) noexcept;

 private:
  bool has_arrived(int rank) const;
  bool all_have_arrived() const;
  bool is_released() const;
  void sleep_until_arrived(int rank, std::string_view what, StragglerReport& report);
  void throw_if_released(int rank, std::string_view what) const;
  [[noreturn]] void throw_failure(std::string_view what) const;
  void wait_for_loss() const;
  std::string missing() const;
  void wake_all() const;

  const std::span<BarrierSlot> slots_;
  BarrierFailure& failure_;
  const std::shared_ptr<cluster::Membership> membership_;
  SharedBarrierOptions options_;
  const int rank_;
  std::uint32_t round_ = 0;
  std::atomic<bool> is_lost_ = false;
  bool has_given_up_ = false;
  concurrency::CancelRegistration on_lost_;  // last: its callback uses the rest
};

}  // namespace brigade::comm
