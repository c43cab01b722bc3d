#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace brigade::concurrency {

/// Options of Barrier.
struct BarrierOptions {
  /// The number of participating threads, at least 1.
  int parties = 1;
  /// A longer wait is an error that names the missing parties.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// How long a waiter polls before it sleeps. A sleeping thread costs tens of microseconds to
  /// wake, a polling one keeps its core busy: set 0 where there are more parties than cores.
  std::chrono::microseconds spin{200};
  /// The name of a party in messages: "replica 1".
  std::string party_name = "party";
};

/// A reusable barrier for the replicas of one process, which cannot hang: a wait ends when all
/// parties have arrived, when one calls `abort`, when a missing party has left the round, or at the
/// deadline.
///
/// Everything a party wrote before it arrived is visible to every party after the wait. After a
/// failed wait the barrier stays failed until `reset`.
///
/// Thread-safety: each party calls from one thread at a time; `abort` may come from any thread;
/// `reset` only while no party waits.
class Barrier {
 public:
  /// Throws kInvalidArgument if `parties` is less than 1.
  explicit Barrier(BarrierOptions options);

  /// Waits for all parties. Throws what `abort` was given (as kAborted naming the party),
  /// kFailedPrecondition naming a party that left, or kDeadlineExceeded naming the missing ones.
  void arrive_and_wait(int party);

  /// Party `party` leaves this round. Present and later waits of others fail.
  void leave(int party);

  /// Ends all waits, now and until `reset`, with an error that quotes `reason`. Only the first
  /// call's reason is kept.
  void abort(int party, const std::string& reason);

  /// Restores the initial state: all parties are expected, and there is no failure.
  void reset();

  int parties() const noexcept { return options_.parties; }
  /// Whether every wait fails, until `reset`.
  bool has_failed() const noexcept { return failed_.load(std::memory_order_acquire); }

 private:
  bool spin_until_done(std::uint64_t generation) const;
  void sleep_until_done(std::uint64_t generation, int party);
  void release_all();
  [[noreturn]] void throw_failure(int party);
  std::string missing_parties() const;

  const BarrierOptions options_;
  std::atomic<std::uint64_t> generation_{0};  // incremented when all parties have arrived
  std::atomic<int> arrived_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> failed_{false};
  std::unique_ptr<std::atomic<std::uint64_t>[]>
      arrivals_;      // by party: the number of its arrivals, to name missing parties
  std::mutex mutex_;  // guards the members below and the sleep
  std::condition_variable changed_;  // generation_ or failed_ changed
  std::vector<bool> left_;
  std::string failure_;
  int failure_party_ = -1;
};

}  // namespace brigade::concurrency
