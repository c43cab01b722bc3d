#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "brigade/distribute/pipeline/stage_variables.h"

namespace brigade::distribute {

/// What one worker of a pipeline sends to another in a forward pass: an activation, or the model's
/// result.
struct StageMessage {
  at::Tensor tensor;
  /// Which variables the stages have used so far. Unset if the sender wants no gradient.
  std::optional<VariableUse> use;
};

/// The tensors that make up the message. They include the state of the calling replica's random
/// numbers, if some were drawn.
std::vector<at::Tensor> to_tensors(const StageMessage& message);

/// The reverse. The calling replica's random numbers continue from the state in the message. Throws
/// kFailedPrecondition if the sender has fewer than `variables` variables.
StageMessage message_from_tensors(const std::vector<at::Tensor>& tensors, std::size_t variables);

}  // namespace brigade::distribute
