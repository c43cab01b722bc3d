#pragma once

#include <optional>

#include "brigade/comm/nccl/stream_fence.h"
#include "brigade/device/device.h"
#include "brigade/device/stream.h"

namespace brigade::distribute {

/// The stream on which a replica on a GPU queues its work, joined at both ends to the caller's
/// stream of that card: what the caller queued before a run (its batches) is done before the
/// replica begins, and what the replica queued is done before what the caller queues next. So
/// memory may pass between the two without `record_stream`. On CPU nothing.
///
/// Thread-safety: `fork` and `join` by the caller, before and after the run; `Scope` by the
/// replica's thread within it.
class ReplicaStream {
 public:
  explicit ReplicaStream(const device::Device& device);

  void fork();
  void join() const;

  /// The replica's side: makes the stream current while it lives.
  class Scope {
   public:
    explicit Scope(ReplicaStream& stream);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ReplicaStream& stream_;
    std::optional<device::StreamScope> current_;
  };

 private:
  c10::Device device_;
  std::optional<c10::Stream> stream_;  // on a GPU
  comm::StreamFence forked_;
  comm::StreamFence finished_;
};

}  // namespace brigade::distribute
