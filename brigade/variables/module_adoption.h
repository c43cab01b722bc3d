#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "brigade/variables/variable.h"

namespace brigade::variables {

/// The two steps of `VariableStore::adopt`, separate so that names can be checked before memory is
/// changed.

/// Reads the parameters and buffers of a module that was built once per replica: one builder for
/// each distinct tensor, with one component per replica. Throws kInvalidArgument if the replicas
/// disagree.
std::vector<VariableBuilder> plan_adoption(
    std::span<const std::shared_ptr<torch::nn::Module>> replicas, const std::string& prefix);

/// Moves the parameters into flat storage (one for each dtype), copies replica 0's values to all
/// replicas, and creates the variables, in the modules' order. With a controller, floating-point
/// buffers (batch statistics) are taken from replica 0 only: as with towers, one replica sets the
/// statistics.
std::vector<Variable> complete_adoption(std::vector<VariableBuilder> builders,
                                        std::span<const c10::Device> devices,
                                        const StorageFactory& storages);

}  // namespace brigade::variables
