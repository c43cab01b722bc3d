#pragma once

#include <optional>

#include "brigade/comm/nccl/stream_fence.h"
#include "brigade/device/device.h"
#include "brigade/device/stream.h"

namespace brigade::distribute {

/// The stream on which a replica on a GPU queues its work. It is ordered with the caller's stream
/// of that card: work that the caller queued before a run (such as copies of batches) is done
/// before the replica's work, and the replica's work is done before work that the caller queues
/// next. So tensors may be passed between the two without `record_stream`. Does nothing on CPU.
///
/// Thread-safety: `fork` and `join` by the caller, before and after the run; `Scope` by the
/// replica's thread within it.
class ReplicaStream {
 public:
  explicit ReplicaStream(const device::Device& device);

  void fork();
  void join() const;

  /// Makes the stream current in the replica's thread during its lifetime.
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
