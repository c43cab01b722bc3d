#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "brigade/variables/variable.h"

namespace brigade::distribute {

/// Throws kInvalidArgument unless there is one gradient per variable, and each defined gradient has
/// its variable's shape and dtype. The message names the variable, what was given and what is
/// needed. Called wherever gradients enter that a program may have assigned, since the code that
/// adds and applies them reads memory by the variable's shape.
void check_gradients(std::span<const variables::Variable> variables,
                     std::span<const at::Tensor> gradients);

/// The same, and the gradients must be on the device of replica `replica`'s variables.
void check_gradients(std::span<const variables::Variable> variables,
                     std::span<const at::Tensor> gradients, int replica);

}  // namespace brigade::distribute
