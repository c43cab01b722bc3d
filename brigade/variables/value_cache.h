#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <utility>

namespace brigade::variables {

/// Copies of variables' components on other devices, so that a component is copied once even if
/// many layers read it. A copy is made again when the component has changed, or when gradients are
/// recorded that the copy does not record.
///
/// Thread-safety: one thread.
class ValueCache {
 public:
  /// `component` itself if it is on `device`, else its copy there; differentiable.
  at::Tensor get(const at::Tensor& component, c10::Device device);

 private:
  struct Copy {
    at::Tensor original;  // keeps the address, which is the key, from being reused
    at::Tensor value;
    std::int64_t version = 0;
  };
  std::map<std::pair<const void*, std::pair<c10::DeviceType, c10::DeviceIndex>>, Copy> copies_;
};

}  // namespace brigade::variables
