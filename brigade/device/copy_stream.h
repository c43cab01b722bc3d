#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <optional>

#include "brigade/device/stream.h"

namespace brigade::device {

/// The way of tensors from the host to one device beside what the device computes meanwhile: a
/// stream of its own, and pinned memory, from which a card reads without the host's help. On CPU,
/// where a tensor is there already, nothing happens.
///
/// What was made on this stream is complete once an event recorded behind it has passed; whoever
/// uses it on another stream makes that one wait for the event, and says `use_on_current_stream`.
///
/// Thread-safety: all functions from any thread; what several queue at once comes in any order.
class CopyStream {
 public:
  explicit CopyStream(c10::Device device);

  /// A tensor equal to `tensor` on the device, queued on this stream: the host waits only until it
  /// has copied the tensor into pinned memory, which is libtorch's and is used again when the card
  /// has read it. The tensor itself if it lies there already.
  at::Tensor copy(const at::Tensor& tensor) const;

  /// While it lives, what the calling thread queues for the device is queued on this stream, and
  /// the memory that it takes belongs to this stream.
  ///
  /// Thread-safety: as StreamScope.
  class Scope {
   public:
    explicit Scope(const CopyStream& stream);

   private:
    std::optional<StreamScope> current_;
  };

 private:
  c10::Device device_;
  std::optional<c10::Stream> stream_;  // but for CPU
};

/// Says that `tensor`, made on another stream, is used on the current stream of its device for the
/// calling thread: its memory is not given to others before what is queued there now, at the
/// tensor's end, is done. On CPU nothing.
void use_on_current_stream(const at::Tensor& tensor);

}  // namespace brigade::device
