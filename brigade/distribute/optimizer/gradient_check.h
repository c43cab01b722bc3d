#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "brigade/variables/variable.h"

namespace brigade::distribute {

/// Throws kInvalidArgument unless there is one gradient a variable, and each that is defined has
/// its variable's shape and dtype; names the variable, what was given and what is needed. Asked
/// wherever gradients enter that a program may have assigned: what adds them up and updates reads
/// memory by the variable's shape.
void check_gradients(std::span<const variables::Variable> variables,
                     std::span<const at::Tensor> gradients);

/// The same, where they must also lie where replica `replica` has its variables.
void check_gradients(std::span<const variables::Variable> variables,
                     std::span<const at::Tensor> gradients, int replica);

}  // namespace brigade::distribute
