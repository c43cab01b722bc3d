#include "brigade/variables/value_cache.h"

#include <ATen/core/grad_mode.h>

namespace brigade::variables {

namespace {

/// "cuda" and "cuda:0" are the same device only if that is the current one; components and
/// placements always have an index.
bool lives_on(const at::Tensor& tensor, c10::Device device) {
  if (device.is_cpu()) return tensor.is_cpu();
  return tensor.device() == device;
}

}  // namespace

at::Tensor ValueCache::get(const at::Tensor& component, c10::Device device) {
  if (lives_on(component, device)) return component;
  Copy& copy = copies_[{component.unsafeGetTensorImpl(), {device.type(), device.index()}}];
  const bool needs_gradient = c10::GradMode::is_enabled() && component.requires_grad();
  const bool is_current = copy.value.defined() && copy.version == component._version() &&
                          (!needs_gradient || copy.value.requires_grad());
  if (!is_current) copy = {component, component.to(device), component._version()};
  return copy.value;
}

}  // namespace brigade::variables
