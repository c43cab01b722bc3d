#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/comm/communicator.h"
#include "brigade/comm/reduction_tree.h"
#include "brigade/comm/step_clock.h"
#include "brigade/concurrency/barrier.h"
#include "brigade/concurrency/execution_slots.h"
#include "brigade/device/stream.h"

namespace brigade::comm {

struct LocalGroupOptions {
  /// A collective fails if a replica does not call it within this time; the error names the
  /// replica.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// How long a waiting replica polls before it sleeps; set 0 where replicas exceed cores.
  std::chrono::microseconds spin{200};
  /// The slots in which replicas compute (task r is rank r): a rank that waits for others gives its
  /// slot to another meanwhile. Null: each rank computes whenever it can.
  std::shared_ptr<concurrency::ExecutionSlots> slots = nullptr;
};

/// The collective that a rank calls. If ranks call different ones, the error names both.
struct AnnouncedCall {
  std::string_view name;  ///< a literal: kept without copying
  int root = 0;           ///< of those that have one

  bool operator==(const AnnouncedCall&) const = default;
};

/// The replicas of one process, one thread each. `LocalCommunicator` and a strategy's gradient
/// synchronizers are built on it. Each rank publishes its tensors, all wait at a barrier, and each
/// works on its own shard of all ranks' tensors: on CPU directly in the others' memory, between
/// GPUs by peer copies.
///
/// On GPUs the ranks' streams wait for one another twice in each exchange, and the host does not:
/// what `body` queues comes after what each rank had queued for its tensors, and what a rank queues
/// after the exchange comes after what all bodies have queued, whether or not they published
/// tensors themselves.
///
/// Thread-safety: each rank from one thread at a time; `abort` from any thread; `reset` while no
/// rank is inside a call.
class LocalGroup {
 public:
  /// Throws kInvalidArgument if `world_size` is less than 1.
  explicit LocalGroup(int world_size, LocalGroupOptions options = {});

  int world_size() const noexcept { return barrier_.parties(); }

  /// Publishes `tensors` to the other ranks, waits until all ranks have published theirs, calls
  /// `body`, which may read `published`, and waits until every rank is done, also if `body` throws.
  /// Throws kFailedPrecondition on every rank unless all make the same `call`.
  template <class Body>
  void exchange(int rank, AnnouncedCall call, std::span<const at::Tensor> tensors,
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
  /// The tensors of rank `rank`. Only inside `exchange`.
  std::span<const at::Tensor> published(int rank) const { return published_[rank]; }

  /// Waits until every rank has called it. Throws what `exchange` throws.
  void barrier(int rank);
  /// Rank `rank` makes no more calls until `reset`; ranks that wait for it get an error.
  void leave(int rank) { barrier_.leave(rank); }
  /// Makes every rank that waits, now or later, throw an error that quotes `reason`. Does nothing
  /// in a group of one rank.
  void abort(int rank, const std::string& reason);
  /// The same, and throws `error` in rank `rank`: its call failed before it could wait.
  [[noreturn]] void fail(int rank, const Error& error) {
    abort(rank, error.what());
    throw error;
  }
  /// Clears aborts and leaves: the group can be used again.
  void reset();

  /// Records on `clock` the time that rank `rank` spends in this group: waiting for others and, in
  /// `exchange`, communication unless `body` enters another phase. Null, the default: nothing is
  /// measured. Call it while the rank is in no other call.
  void measure(int rank, StepClock* clock) { clocks_[rank] = clock; }
  /// The clock passed to `measure`. For the rank's own thread.
  StepClock* clock(int rank) const { return clocks_[rank]; }

 private:
  using Devices = std::vector<c10::Device>;

  void publish(int rank, AnnouncedCall call, std::span<const at::Tensor> tensors);
  void withdraw(int rank);
  void withdraw_after_failure(int rank) noexcept;
  Devices devices_of_all() const;
  void record(int rank, device::StreamFence& fence, const Devices& devices);
  void wait_for_others(int rank, const std::vector<device::StreamFence>& fences,
                       const Devices& devices);
  void wait_for_all(int rank);
  void announce(int rank, AnnouncedCall call);
  void check_same_call(int rank);

  const std::shared_ptr<concurrency::ExecutionSlots> slots_;
  concurrency::Barrier barrier_;
  // [rank], written by its rank before the barrier. Owned: after `abort` a rank leaves an exchange
  // while others may still read its tensors.
  std::vector<std::vector<at::Tensor>> published_;
  std::vector<Devices> devices_;  // [rank], the GPUs of its tensors; likewise
  // Two fences a rank, used in turns. A rank may begin the next exchange while another still waits
  // for the fences of this one, but records a fence again only after a barrier that comes after.
  std::vector<device::StreamFence> ready_;     // [rank], its tensors
  std::vector<device::StreamFence> finished_;  // [rank], with everybody's
  /// [rank][parity of its call], likewise: a rank may be one call ahead of those that still
  /// compare.
  std::vector<std::array<AnnouncedCall, 2>> calls_;
  std::vector<std::uint64_t> call_counts_;  // [rank], its rank's alone
  std::vector<StepClock*> clocks_;          // [rank], borrowed, its rank's alone
};

/// Makes one communicator per rank over `group`, which they share. Works on CPU and CUDA tensors.
/// Reductions add by the ReductionTree of the ranks: each rank computes one shard of the result.
std::vector<std::unique_ptr<Communicator>> make_local_communicators(
    std::shared_ptr<LocalGroup> group);

/// Reduces each block of ranks by itself, in place: every rank gets the result of its block, which
/// is that of an `all_reduce` among the ranks of the block. `blocks` are consecutive ranges of
/// ranks, equal on all ranks; a rank in none of them keeps its values. For the thread of rank
/// `rank`; all ranks of the group call it, with the same shapes and dtypes. Throws what
/// `Communicator::all_reduce` throws.
void all_reduce_blocks(LocalGroup& group, int rank, std::span<const at::Tensor> tensors,
                       ReduceOp op, std::span<const LeafRange> blocks);

}  // namespace brigade::comm
