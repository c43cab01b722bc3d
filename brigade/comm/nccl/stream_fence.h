#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>

namespace brigade::comm {

/// Orders the streams of two replicas: what one enqueued before `record` is done before what
/// another enqueues after `wait`. On CPU, where work is done when the call returns, both do
/// nothing. The host never blocks.
///
/// Thread-safety: `record` by the owner; `wait` by others after a barrier that follows the
/// `record`.
class StreamFence {
 public:
  /// Marks the current stream of `device` for the calling thread.
  void record(c10::Device device);
  /// Makes the current stream of `device` wait for the mark.
  void wait(c10::Device device) const;

 private:
  std::optional<c10::Event> event_;
};

}  // namespace brigade::comm
