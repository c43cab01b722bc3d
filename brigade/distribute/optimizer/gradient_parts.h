#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "brigade/comm/reduction_tree.h"
#include "brigade/variables/deferred_gradient.h"

namespace brigade::distribute {

/// One replica's gradients, one part for each variable: neither a value nor deferred if there is
/// none.
using ReplicaGradients = std::vector<variables::GradientPart>;

ReplicaGradients to_parts(std::vector<at::Tensor> values);
/// Their values; those that are deferred are computed.
std::vector<at::Tensor> computed(ReplicaGradients gradients);

/// The sum of `parts`, the parts of `tree`, in its order: the same bits whether parts are values or
/// deferred. Values are dense and contiguous, and deferred ones are made so. A part without either
/// adds nothing; if none adds anything, the sum is undefined. It is made in place in a value that
/// nobody else refers to, so pass the parts by moving them.
at::Tensor sum_of_parts(std::vector<variables::GradientPart> parts,
                        const comm::ReductionTree& tree);

}  // namespace brigade::distribute
