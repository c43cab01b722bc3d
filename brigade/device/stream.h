#pragma once

#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include "brigade/device/device.h"

namespace brigade::device {

/// A stream for the work of one replica. On CUDA a new one from libtorch's pool, so that replicas
/// on one card run in parallel; on CPU, where operations run synchronously, the only stream.
c10::Stream make_stream(const Device& device);

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

}  // namespace brigade::device
