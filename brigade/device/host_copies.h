#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <vector>

namespace brigade::device {

/// Copies of tensors from GPUs to the host, one by one, for which the host waits once: they are
/// queued one after another, and go to pinned memory, which a GPU writes without the host's help.
/// Nothing is concatenated on the GPU (as `comm::PackedCopies` does for small tensors), so they may
/// be as large as the GPU's memory.
///
/// Thread-safety: one thread, whose current streams are used.
class HostCopies {
 public:
  /// Queues a copy of a tensor on a GPU, and returns it: contiguous, in pinned memory. It has the
  /// values after `wait`.
  at::Tensor queue(const at::Tensor& tensor);
  /// Returns when all copies are complete: the host waits once for each GPU.
  void wait();

 private:
  std::vector<c10::Device> devices_;  // of what was queued
};

}  // namespace brigade::device
