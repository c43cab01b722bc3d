#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/variables/variable.h"

namespace brigade::command {

/// The values of all variables, as they are saved and hashed.
std::vector<checkpoint::NamedTensor> weights_of(std::span<const variables::Variable> variables);

/// Gives the variables the values in `weights`. Throws kInvalidArgument, listing the names and
/// shapes that differ, unless names, shapes and dtypes are the same; then nothing is changed.
/// `source` and `model` say in the message whose weights they are and for what.
void assign_weights(std::span<const variables::Variable> variables,
                    const checkpoint::SafetensorsFile& weights, std::string_view source,
                    std::string_view model);

}  // namespace brigade::command
