#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "brigade/distribute/optimizer/gradient_synchronizer.h"

namespace torch::autograd {
struct Node;
}

namespace brigade::distribute {

/// What becomes of sparse gradients.
enum class SparseGradients {
  kMakeDense,
  kKeepRows  ///< those of rows stay sparse (`GradientSynchronizer::takes_rows`); others become
             ///< dense
};

/// `gradient` dense and in the memory order of its parameter (`variables::in_memory_order`), so
/// that replicas can add gradients element by element: a copy only if its strides are not the
/// parameter's. Or its rows, coalesced, if the parameter is contiguous. An undefined one stays so.
/// The sums of rows that occur several times have the same bits either way.
at::Tensor in_parameter_layout(const at::Tensor& gradient,
                               SparseGradients sparse = SparseGradients::kMakeDense,
                               at::MemoryFormat format = at::MemoryFormat::Contiguous);

/// A parameter whose gradient is reported, in one replica.
struct HookedParameter {
  at::Tensor parameter;      ///< a leaf
  std::size_t variable = 0;  ///< the index passed to `GradientReadyListener::ready`
  at::MemoryFormat memory_format = at::MemoryFormat::Contiguous;  ///< the variable's
};

/// Autograd hooks that notify a `GradientReadyListener` of each gradient as soon as it is complete,
/// during backward. They run after all other hooks of a parameter, and do not change gradients. A
/// replica's are registered by its first watch, in its thread, so that on GPUs they run on the
/// stream of the replica: autograd's node of a parameter keeps the stream on which it was made.
/// Gradients of rows that stay sparse are not reported.
/// Outside a `Watch` they do nothing.
///
/// Thread-safety: each replica's watch from its own thread; created and destroyed while no backward
/// runs.
class GradientHooks {
 public:
  /// `parameters` by replica. `listener` outlives this.
  GradientHooks(GradientReadyListener& listener,
                std::vector<std::vector<HookedParameter>> parameters,
                SparseGradients sparse = SparseGradients::kMakeDense);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  /// Reports the gradients of the backward pass from `loss` as those of `replica` while it exists.
  /// Other passes are not reported, not even one that runs inside this pass. If it is destroyed by
  /// an exception, it calls `GradientReadyListener::cancel`.
  class Watch {
   public:
    Watch(GradientHooks& hooks, int replica, const at::Tensor& loss);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    /// The gradient that was reported for parameter `index` (of the replica's, in their order);
    /// undefined if none was. `gradient` is the one that backward returned. Throws kInternal if
    /// another one was reported.
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
  /// The state that one replica's hooks share with its open watch. For its thread only.
  struct OfReplica;
  void add_hooks(OfReplica& replica) const;

  GradientReadyListener& listener_;
  const SparseGradients sparse_;
  std::vector<std::unique_ptr<OfReplica>> replicas_;
};

}  // namespace brigade::distribute
