#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>

namespace brigade::comm {

/// Orders the streams of two replicas: what one enqueued before `record` completes before what
/// another enqueues after `wait`. On CPU, where work is complete when a call returns, both do
/// nothing. The host never blocks.
///
/// Thread-safety: `record` by the owner; `wait` by others after a barrier that follows the
/// `record`.
class StreamFence {
 public:
  /// Records an event on the calling thread's current stream of `device`.
  void record(c10::Device device);
  /// Makes the current stream of `device` wait for the event.
  void wait(c10::Device device) const;

 private:
  std::optional<c10::Event> event_;
};

}  // namespace brigade::comm
