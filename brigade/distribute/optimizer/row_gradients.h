#pragma once

#include <ATen/core/Tensor.h>

#include <span>

namespace brigade::distribute {

/// The sum of gradients of one variable, all defined and on one device, in this order; at least
/// one. If all are of rows (`comm::has_rows`), so is the sum, coalesced; otherwise it is dense.
at::Tensor sum_of_replicas(std::span<const at::Tensor> gradients);

}  // namespace brigade::distribute
