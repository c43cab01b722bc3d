#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "brigade/variables/variable.h"

namespace brigade::variables {

/// The two halves of `VariableStore::adopt`, apart so that names can be checked before memory is
/// touched.

/// Reads the parameters and buffers of a module built once a replica: one builder for each distinct
/// tensor, with one component a replica. Throws kInvalidArgument if the replicas disagree.
std::vector<VariableBuilder> plan_adoption(
    std::span<const std::shared_ptr<torch::nn::Module>> replicas, const std::string& prefix);

/// Moves the parameters into flat storage (one for each dtype), gives every replica replica 0's
/// values, and makes the variables, in the modules' order. Under a controller the floating buffers
/// (batch statistics) are replica 0's alone: as with towers, one of them sets the statistics.
std::vector<Variable> complete_adoption(std::vector<VariableBuilder> builders,
                                        std::span<const c10::Device> devices, StorageSharing sharing,
                                        const Controller& controller = {});

}  // namespace brigade::variables
