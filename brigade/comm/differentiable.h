#pragma once

#include <ATen/core/Tensor.h>

#include "brigade/comm/communicator.h"

namespace brigade::comm {

/// A differentiable `Communicator::all_reduce` that returns a new tensor. The gradient of a sum is
/// the sum of the ranks' gradients, that of a mean their mean; kMax and kMin cut the graph. In the
/// backward pass every rank must reach this node, in the same order relative to other collectives.
///
/// Not for CUDA tensors when several ranks share a GPU: one thread runs backward for all of them,
/// so a node that waits for another rank would wait for itself. `ReplicaContext` refuses it.
at::Tensor differentiable_all_reduce(Communicator& communicator, const at::Tensor& value,
                                     ReduceOp op);

/// A differentiable `Communicator::all_gather` that concatenates along `axis`. In backward each
/// rank gets its own part of the summed gradient. Throws kInvalidArgument for a scalar, or if
/// shapes differ on another axis than `axis`.
at::Tensor differentiable_all_gather(Communicator& communicator, const at::Tensor& value,
                                     std::int64_t axis);

/// Returns a copy of `value`, which must be equal on every rank; backward sums its gradient over
/// the ranks. For values that were reduced outside autograd, such as the statistics of a global
/// batch.
at::Tensor all_reduce_gradient(Communicator& communicator, const at::Tensor& value);

/// For autograd nodes that run another backward pass inside of theirs: whether that one contains
/// collectives. `backward_is_collective` asks the nodes that derive from this.
class MayBeCollective {
 public:
  virtual ~MayBeCollective() = default;
  virtual bool is_collective() const = 0;
};

/// Whether the backward pass from `value` contains one of the collectives above. If so, every rank
/// must run it, even a rank that has nothing to contribute.
bool backward_is_collective(const at::Tensor& value);

}  // namespace brigade::comm
