#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <utility>

namespace brigade::variables {

/// Copies of variables' components on devices that they do not live on, so that a component travels
/// once however many layers read it. A copy is made again when the component has changed, and when
/// gradients are recorded now that were not when it was made.
///
/// Thread-safety: one thread.
class ValueCache {
 public:
  /// `component` itself if it lives on `device`, else its copy there; differentiable.
  at::Tensor get(const at::Tensor& component, c10::Device device);

 private:
  struct Copy {
    at::Tensor original;  // keeps the address, which is the key, from being used again
    at::Tensor value;
    std::int64_t version = 0;
  };
  std::map<std::pair<const void*, std::pair<c10::DeviceType, c10::DeviceIndex>>, Copy> copies_;
};

}  // namespace brigade::variables
