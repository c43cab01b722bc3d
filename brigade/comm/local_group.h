#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/comm/communicator.h"
#include "brigade/comm/stream_fence.h"
#include "brigade/concurrency/barrier.h"

namespace brigade::comm {

struct LocalGroupOptions {
  /// A collective in which a replica does not come within this time fails and names it.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// How long a waiting replica polls before it sleeps; set 0 where replicas exceed cores.
  std::chrono::microseconds spin{200};
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

  /// Shows `tensors` to the other ranks and waits until all have shown theirs. They may be read by
  /// the others until the matching `withdraw`.
  void publish(int rank, std::span<const at::Tensor> tensors);
  /// What rank `rank` has published.
  std::span<const at::Tensor> published(int rank) const { return published_[rank]; }
  /// Waits until every rank is done with the published tensors.
  void withdraw(int rank);

  /// Waits for every rank.
  void meet(int rank) { barrier_.arrive_and_wait(rank); }
  /// Rank `rank` makes no more calls until `reset`; whoever waits for it gets an error instead.
  void leave(int rank) { barrier_.leave(rank); }
  /// Releases every rank that waits, now or later, with an error that quotes `reason`.
  void abort(int rank, const std::string& reason) { barrier_.abort(rank, reason); }
  /// Forgets aborts and leaves: the group can be used again.
  void reset() { barrier_.reset(); }

 private:
  concurrency::Barrier barrier_;
  void fence_meeting(int rank);

  std::vector<std::span<const at::Tensor>>
      published_;                    // [rank], written by its rank before the barrier
  std::vector<StreamFence> fences_;  // [rank], likewise
  std::vector<std::optional<c10::Device>> devices_;  // [rank], where its tensors lie; likewise
};

/// One communicator a rank over `group`, which they share. Works on CPU and CUDA tensors; a
/// reduction is cut into one share a rank, each computed by its rank in rank order.
std::vector<std::unique_ptr<Communicator>> make_local_communicators(
    std::shared_ptr<LocalGroup> group);

}  // namespace brigade::comm
