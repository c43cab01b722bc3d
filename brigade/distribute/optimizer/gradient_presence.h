#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "brigade/comm/communicator.h"

namespace brigade::distribute {

/// Which of these gradients exist.
std::vector<bool> present(std::span<const at::Tensor> gradients);

/// Sets `known[i]` for each gradient that exists.
void merge_present(std::vector<bool>& known, std::span<const at::Tensor> gradients);

/// Which gradients exist on at least one rank. Collective.
std::vector<bool> present_anywhere(comm::Communicator& communicator,
                                   std::span<const at::Tensor> gradients);

}  // namespace brigade::distribute
