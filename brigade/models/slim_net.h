#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "brigade/variables/mode.h"
#include "brigade/variables/variable_scope.h"

namespace brigade::models {

/// Options of `slim_net`.
struct SlimNetOptions {
  std::int64_t classes = 10;
  /// Whether the variables are created or found by their names.
  variables::Reuse reuse = variables::Reuse::kInherit;
  /// The variable scope of the layers; empty: none.
  std::string scope = {};
  /// Of conv1, pool1, fc1 and fc2: see `ModelOptions::end_points`.
  std::vector<std::string> end_points = {};
};

/// The network of the Slim tutorials, as a function of layers: conv1 3x3x64, pool1 2x2, flatten,
/// fc1 256, fc2 `classes`, with relu in between. `images` are [N, C, H, W]; returns the logits [N,
/// classes]. Variables: conv1/weights, conv1/biases, fc1/weights, fc1/biases, fc2/weights,
/// fc2/biases, as in TF-Slim. Needs an open graph: call it through `Strategy::create`.
at::Tensor slim_net(const at::Tensor& images, const SlimNetOptions& options = {});

}  // namespace brigade::models
