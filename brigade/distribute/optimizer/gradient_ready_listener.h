#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace brigade::distribute {

/// Is notified of each gradient as soon as backward has completed it, so that its reduction
/// overlaps with the rest of backward. A `GradientSynchronizer` that supports this returns one from
/// `GradientSynchronizer::ready_listener`; `Optimizer::minimize` uses it if gradients are applied
/// unchanged.
///
/// In each step a replica either calls `begin`, then `ready` for any of its gradients, and then
/// applies all of them or calls `cancel`; or it makes none of these calls and only applies.
///
/// Thread-safety: each replica from its own thread.
class GradientReadyListener {
 public:
  virtual ~GradientReadyListener() = default;

  /// Whether the next step uses the notifications. If not, do not call the functions below.
  virtual bool is_enabled() const = 0;
  /// Replica `replica` begins a backward pass, whose gradients it will apply. The pass must not
  /// contain collectives. Throws kFailedPrecondition if an earlier pass of this step has failed.
  virtual void begin(int replica) = 0;
  /// The gradient of variable `variable` (an index into `OptimizerState::variables`) is complete.
  /// It is contiguous, and must not change until it is applied.
  virtual void ready(int replica, std::size_t variable, const at::Tensor& gradient) = 0;
  /// The current pass has failed: its gradients will not be applied.
  virtual void cancel(int replica) noexcept = 0;
};

}  // namespace brigade::distribute
