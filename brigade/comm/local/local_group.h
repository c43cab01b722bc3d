#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/comm/communicator.h"
#include "brigade/comm/step_clock.h"
#include "brigade/comm/nccl/stream_fence.h"
#include "brigade/concurrency/barrier.h"

namespace brigade::comm {

struct LocalGroupOptions {
  /// A collective in which a replica does not come within this time fails and names it.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// How long a waiting replica polls before it sleeps; set 0 where replicas exceed cores.
  std::chrono::microseconds spin{200};
};

/// Which collective a rank is in. Ranks that meet in different ones get an error that names both.
struct CollectiveCall {
  std::string_view name;  ///< a literal: kept without copying
  int root = 0;           ///< of those that have one

  bool operator==(const CollectiveCall&) const = default;
};

/// The replicas of one process, one thread each: the meeting point under `LocalCommunicator` and
/// under a strategy's gradient exchange. Each rank publishes its tensors, all meet, and each works
/// on its own share of everybody's: on CPU straight in the others' memory, between GPUs by peer
/// copies.
///
/// Thread-safety: each rank from one thread at a time; `abort` from any thread; `reset` while no
/// rank is inside a call.
class LocalGroup {
 public:
  /// Throws kInvalidArgument if `world_size` is less than 1.
  explicit LocalGroup(int world_size, LocalGroupOptions options = {});

  int world_size() const noexcept { return barrier_.parties(); }

  /// Shows `tensors` to the other ranks, waits until all have shown theirs, calls `body`, which may
  /// read `published`, and waits until every rank is done with it, also if `body` throws. Throws
  /// kFailedPrecondition in every rank if they do not all make the same `call`.
  template <class Body>
  void exchange(int rank, CollectiveCall call, std::span<const at::Tensor> tensors,
                const Body& body) {
    const PhaseScope communication(clock(rank), StepPhase::kCommunication);
    publish(rank, call, tensors);
    try {
      body();
    } catch (...) {
      withdraw_after_failure(rank);
      throw;
    }
    withdraw(rank);
  }
  /// What rank `rank` shows, inside of `exchange`.
  std::span<const at::Tensor> published(int rank) const { return published_[rank]; }

  /// Waits for every rank. Throws as `exchange`.
  void barrier(int rank);
  /// Rank `rank` makes no more calls until `reset`; whoever waits for it gets an error instead.
  void leave(int rank) { barrier_.leave(rank); }
  /// Releases every rank that waits, now or later, with an error that quotes `reason`. Alone nobody
  /// does, and the next call is as good as the first.
  void abort(int rank, const std::string& reason) {
    if (world_size() > 1) barrier_.abort(rank, reason);
  }
  /// Forgets aborts and leaves: the group can be used again.
  void reset();

  /// Counts on `clock`, which is rank `rank`'s, what the rank spends in here: waiting for others,
  /// and, in `exchange`, communication where `body` enters no other phase. Null, as at first:
  /// measures nothing. While the rank is in no call.
  void measure(int rank, StepClock* clock) { clocks_[rank] = clock; }
  /// What `measure` was given; for the rank's own thread.
  StepClock* clock(int rank) const { return clocks_[rank]; }

 private:
  void publish(int rank, CollectiveCall call, std::span<const at::Tensor> tensors);
  void withdraw(int rank) { fence_and_wait(rank); }
  void withdraw_after_failure(int rank) noexcept;
  void fence_and_wait(int rank);
  void wait_for_all(int rank);
  void announce(int rank, CollectiveCall call);
  void check_same_call(int rank);

  concurrency::Barrier barrier_;
  std::vector<std::span<const at::Tensor>>
      published_;                    // [rank], written by its rank before the barrier
  std::vector<StreamFence> fences_;  // [rank], likewise
  std::vector<std::optional<c10::Device>> devices_;  // [rank], where its tensors lie; likewise
  /// [rank][parity of its call], likewise: a rank may be one call ahead of those that still
  /// compare.
  std::vector<std::array<CollectiveCall, 2>> calls_;
  std::vector<std::uint64_t> call_counts_;  // [rank], its rank's alone
  std::vector<StepClock*> clocks_;          // [rank], borrowed, its rank's alone
};

/// One communicator a rank over `group`, which they share. Works on CPU and CUDA tensors; a
/// reduction is cut into one share a rank, each computed by its rank in rank order.
std::vector<std::unique_ptr<Communicator>> make_local_communicators(
    std::shared_ptr<LocalGroup> group);

}  // namespace brigade::comm
