#pragma once

#include <ATen/core/Tensor.h>

#include <span>

namespace brigade::distribute {

/// The sum of gradients of one variable on one device, by the comm::ReductionTree of their number;
/// undefined ones add nothing, and at least one is defined. If all are of rows (`comm::has_rows`),
/// so is the sum, coalesced; otherwise it is dense.
at::Tensor sum_of_replicas(std::span<const at::Tensor> gradients);

}  // namespace brigade::distribute
