#pragma once

#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include "brigade/device/device.h"

namespace brigade::device {

/// A stream for one replica to queue its work on. On CUDA a new one from libtorch's pool, so that
/// replicas on one card run beside each other; on CPU, where work is done at once, the only one
/// there is.
c10::Stream make_stream(const Device& device);

/// Waits until all work queued on `stream` is done. Returns at once for CPU streams.
void synchronize(const c10::Stream& stream);

/// Makes a stream, and its device, the current ones of the calling thread while it lives. A tensor
/// that is used on another stream than the one it was made on must be told so with `record_stream`.
///
/// Thread-safety: open and close it on the same thread, inner scopes first.
class StreamScope {
 public:
  explicit StreamScope(c10::Stream stream) : guard_(stream) {}

 private:
  c10::StreamGuard guard_;
};

}  // namespace brigade::device
