#pragma once

#include <ATen/core/Tensor.h>

#include "brigade/comm/communicator.h"

namespace brigade::comm {

/// `Communicator::all_reduce` as a differentiable function of a new tensor: the gradient of the sum
/// is the sum of the gradients, of the mean their mean. kMax and kMin cut the graph. In the
/// backward pass every rank must reach this node, in the same order as its others.
///
/// Not for CUDA tensors where several ranks share a card: there one thread runs backward for all of
/// them, and a node that waits for another rank would wait for itself. `ReplicaContext` refuses it.
at::Tensor differentiable_all_reduce(Communicator& communicator, const at::Tensor& value,
                                     ReduceOp op);

/// `Communicator::all_gather` joined along `axis`, differentiable: each rank gets its part of the
/// summed gradient. Throws kInvalidArgument for a scalar, or shapes that differ elsewhere than on
/// `axis`.
at::Tensor differentiable_all_gather(Communicator& communicator, const at::Tensor& value,
                                     std::int64_t axis);

/// A copy of `value`, which must be equal in every rank, that collects its gradient from all of
/// them: the gradient is summed over the ranks in backward. For values that were computed together
/// outside of autograd, as the statistics of a global batch.
at::Tensor all_reduce_gradient(Communicator& communicator, const at::Tensor& value);

/// Whether the backward pass from `value` reaches one of the functions above: then every rank must
/// make it, also one that has nothing to contribute.
bool backward_is_collective(const at::Tensor& value);

}  // namespace brigade::comm
