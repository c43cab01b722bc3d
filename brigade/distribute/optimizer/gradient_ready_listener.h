#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace brigade::distribute {

/// Takes each gradient of a step as soon as backward has it whole, so that what is done with it
/// overlaps with the rest of backward. A `GradientSynchronizer` that gains by that offers one
/// (`GradientSynchronizer::ready_listener`), and `Optimizer::minimize` uses it where gradients are applied as
/// they are.
///
/// Of each step a replica either says `begin`, then `ready` for any of its gradients, and then
/// applies all of them, or `cancel`s; or it says nothing of this, and only applies.
///
/// Thread-safety: each replica from its own thread.
class GradientReadyListener {
 public:
  virtual ~GradientReadyListener() = default;

  /// Whether the next step has a use for early gradients; if not, be silent.
  virtual bool is_enabled() const = 0;
  /// Replica `replica` begins a backward pass, whose gradients it will apply. Nothing in it may be
  /// a collective. Throws kFailedPrecondition where a pass of this step has failed.
  virtual void begin(int replica) = 0;
  /// Variable `variable`, in the order of `OptimizerState::variables`, has this gradient,
  /// contiguous, which stays untouched until it is applied.
  virtual void ready(int replica, std::size_t variable, const at::Tensor& gradient) = 0;
  /// The pass that was begun has failed: its gradients will not be applied.
  virtual void cancel(int replica) noexcept = 0;
};

}  // namespace brigade::distribute
