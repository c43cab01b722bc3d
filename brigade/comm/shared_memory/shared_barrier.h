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
#include "brigade/comm/exchange/straggler_report.h"
#include "brigade/concurrency/cancel_token.h"

namespace brigade::comm {

/// One rank's place in a meeting, in shared memory. Zeros at first.
struct alignas(64) BarrierSlot {
  std::atomic<std::uint32_t> arrivals;
  std::atomic<std::uint32_t> sleepers;  ///< who sleep until `arrivals` changes
  std::atomic<std::uint32_t> has_left;
};

/// Why a rank gave up, for the others; in shared memory, zeros at first. The first one counts.
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
  /// How long to poll before sleeping; 0 where processes exceed cores.
  std::chrono::microseconds spin{0};
};

/// A barrier between processes over shared memory. Waiters poll a while, then sleep in the kernel
/// until the rank that they wait for has come; they are released when a member is lost, gives up or
/// leaves.
///
/// Thread-safety: one call at a time a rank.
class SharedBarrier {
 public:
  /// `slots[rank]` and `failure` lie in the shared segment, which outlives this.
  SharedBarrier(std::span<BarrierSlot> slots, BarrierFailure& failure,
                std::shared_ptr<cluster::Membership> membership, SharedBarrierOptions options);
  /// Tells the others that this rank comes no more.
  ~SharedBarrier();

  void set_spin(std::chrono::microseconds spin) { options_.spin = spin; }

  /// Returns when every rank has come as often as this one. Throws kUnavailable, naming the member,
  /// if one is lost; kDeadlineExceeded, naming who is missing; what a rank said that gave up;
  /// kFailedPrecondition if one has left. `what` names the call, for messages.
  void arrive_and_wait(std::string_view what);

  /// Releases everybody, now and later, with this reason.
  void give_up(const Error& reason) noexcept;

 private:
  bool has_come(int rank) const;
  bool all_have_come() const;
  bool is_released() const;
  void sleep_until_come(int rank, std::string_view what, StragglerReport& report);
  void throw_if_released(int rank, std::string_view what) const;
  [[noreturn]] void throw_failure(std::string_view what) const;
  void wait_for_news() const;
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
