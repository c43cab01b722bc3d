#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace brigade::models {

/// The names that torchvision's model has for the variables of the model called `model`:
/// "InceptionV3/Conv2d_1a_3x3/BatchNorm/moving_mean" is "Conv2d_1a_3x3.bn.running_mean". For
/// reading torchvision's weights, and for comparing the two. The ResNets' are for the default
/// options; those of ResNeXt and wide networks are the same.
///
/// Has all variables that the model can have, the auxiliary head included, for the default scope.
/// The elements are the same, in the same order; a 1 x 1 convolution here may be a linear layer
/// there, so shapes may differ in trailing ones ([1000, 2048, 1, 1] and [1000, 2048]).
/// torchvision's `num_batches_tracked` has no counterpart.
///
/// Throws kInvalidArgument for a model that torchvision does not have, with the nearest and all
/// names. Thread-safety: a pure function.
std::map<std::string, std::string> torchvision_names(std::string_view model);

/// The models that `torchvision_names` knows, sorted.
std::vector<std::string> torchvision_models();

}  // namespace brigade::models
