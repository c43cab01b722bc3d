#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "brigade/distribute/pipeline/stage_variables.h"

namespace brigade::distribute {

/// Throws kInvalidArgument if a received activation and the batch that the layer has in this worker
/// differ in more than the number of examples.
void check_same_layer(const at::Tensor& received, const at::Tensor& local, std::string_view layer,
                      const std::string& worker);

/// The rest throws kUnimplemented: what models may not do in a pipeline over several workers.
[[noreturn]] void refuse_second_pass(std::string_view layer);
[[noreturn]] void refuse_second_backward();
[[noreturn]] void refuse_several_results();
/// With several stages on each device: a stage before `stage` ends with a tensor without gradient.
[[noreturn]] void refuse_detached(const std::string& worker, int stage);
/// A stage begins within `layers::recompute`.
[[noreturn]] void refuse_recompute(const std::string& worker);
/// Throws if stages of several workers use a variable.
void check_none_is_tied(const VariableUse& use, const StageVariables& variables);
/// Throws if one of the variables with a penalty is used by stages of several workers.
void check_penalties(const VariableSet& penalized, const VariableUse& use,
                     const StageVariables& variables);

}  // namespace brigade::distribute
