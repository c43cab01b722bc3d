#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <optional>
#include <span>
#include <vector>

#include "brigade/device/device.h"

namespace brigade::device {

/// A stream for the work of one replica. On CUDA a new one from libtorch's pool, so that replicas
/// on one card run in parallel; on CPU, where operations run synchronously, the only stream.
c10::Stream make_stream(const Device& device);

/// The calling thread's current stream of this device.
c10::Stream current_stream(c10::Device device);

/// Waits until all work queued on `stream` is done. Returns immediately for CPU streams.
void synchronize(const c10::Stream& stream);

/// Makes a stream and its device the current ones of the calling thread during its lifetime. If a
/// tensor is used on another stream than the one it was made on, call `record_stream` for it.
///
/// Thread-safety: open and close it on the same thread, inner scopes first.
class StreamScope {
 public:
  explicit StreamScope(c10::Stream stream) : guard_(stream) {}

 private:
  c10::StreamGuard guard_;
};

/// Copies tensors from the host to one device in parallel with computation on the device: on a
/// separate stream, through pinned memory, which a GPU reads without the host's help. On CPU
/// nothing is copied.
///
/// The stream has a high priority. libtorch takes new streams from a pool of 32 in rotation, one
/// for each priority, so that two streams of one pool are sooner or later the same; this one is
/// never one of `make_stream`.
///
/// A result of this stream is complete once an event recorded after it has completed. To use it on
/// another stream, make that stream wait for the event, and call `use_on_current_stream`.
///
/// Thread-safety: all functions from any thread; copies queued by several threads at the same time
/// run in any order.
class CopyStream {
 public:
  explicit CopyStream(c10::Device device);

  /// A copy of `tensor` on the device, queued on this stream: the host waits only until the tensor
  /// is in pinned memory, which libtorch reuses once the GPU has read it. The tensor itself if it
  /// is on the device already.
  at::Tensor copy(const at::Tensor& tensor) const;

  /// During its lifetime, work that the calling thread queues for the device goes to this stream,
  /// and memory that it allocates belongs to this stream.
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
  std::optional<c10::Stream> stream_;  // except on CPU
};

/// Records that `tensor`, made on another stream, is used on the calling thread's current stream of
/// its device: after the tensor is freed, its memory is not reused before the work queued there is
/// done (`record_stream`). Does nothing on CPU.
void use_on_current_stream(const at::Tensor& tensor);

/// Orders the streams of two replicas: what one enqueued before `record` completes before what
/// another enqueues after `wait`. On CPU, where work is complete when a call returns, both do
/// nothing. The host never blocks.
///
/// Thread-safety: `record` by the owner; `wait` by others after a barrier that follows the
/// `record`. The owner records again only after all of them have waited: who alternates between
/// two fences, with a barrier after each record, needs no other barrier for that.
class StreamFence {
 public:
  /// Records an event on the calling thread's current stream of each of `devices`, instead of what
  /// was recorded before.
  void record(std::span<const c10::Device> devices);
  void record(c10::Device device) { record({&device, 1}); }
  /// Makes the current stream of `device` wait for the events.
  void wait(c10::Device device) const;

 private:
  struct Mark {
    c10::Device device;
    c10::Event event;  // recorded again and again: making one takes longer
    bool is_recorded = false;
  };
  Mark& mark_of(c10::Device device);

  std::vector<Mark> marks_;
};

}  // namespace brigade::device
