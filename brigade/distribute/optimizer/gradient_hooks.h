#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "brigade/distribute/optimizer/gradient_ready_listener.h"

namespace torch::autograd {
struct Node;
}

namespace brigade::distribute {

/// A parameter whose gradient is to be told, in one replica.
struct HookedParameter {
  at::Tensor parameter;      ///< a leaf
  std::size_t variable = 0;  ///< what it is called there
};

/// Sits in autograd's graph, behind all of a parameter's own hooks, and tells `GradientReadyListener` of
/// each gradient that is whole while backward goes on. It changes none. Outside of a `Watch` it
/// tells nothing.
///
/// Thread-safety: each replica's watch from its own thread; making and destroying while no backward
/// runs.
class GradientHooks {
 public:
  /// `parameters` by replica. `listener` outlives this.
  GradientHooks(GradientReadyListener& listener, std::vector<std::vector<HookedParameter>> parameters);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  /// While it lives, the gradients of the backward pass from `loss`, and of no other, not even of
  /// one that runs inside of it, are told as those of `replica`. Cancelled if it ends by an
  /// exception.
  class Watch {
   public:
    Watch(GradientHooks& hooks, int replica, const at::Tensor& loss);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    /// What was told of parameter `index` (of the replica's, in their order), if that is the whole
    /// of `gradient`, the one that backward returned; otherwise undefined. Throws kInternal if
    /// another was told.
    at::Tensor reported(std::size_t index, const at::Tensor& gradient) const;

   private:
    GradientHooks& hooks_;
    const int replica_;
    const at::Tensor loss_;
    const unsigned loss_hook_;
    const int exceptions_;
  };

 private:
  class Hook;
  /// What one replica's hooks see of its open watch; its thread's alone.
  struct alignas(64) OfReplica;
  struct Registered {
    std::shared_ptr<torch::autograd::Node> node;
    std::size_t key;
  };
  void add_hook(int replica, std::size_t index, const HookedParameter& parameter);

  GradientReadyListener& listener_;
  std::vector<std::unique_ptr<OfReplica>> replicas_;
  std::vector<Registered> registered_;
};

}  // namespace brigade::distribute
