#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "brigade/variables/mode.h"
#include "brigade/variables/variable_scope.h"

namespace brigade::models {

struct MnistCnnFunctionOptions {
  std::int64_t classes = 10;
  /// The dropout rate of the 1024 hidden values in training, in [0, 1).
  double dropout = 0.0;
  variables::Mode mode = variables::Mode::kTraining;
  variables::Reuse reuse = variables::Reuse::kInherit;
  /// The variable scope of the layers; empty: none.
  std::string scope = {};
};

/// The convolutional network of the MNIST tutorials as a function of layers, the counterpart of
/// `MnistCnn`: the same computation and speed, with the variable names of TensorFlow's layers:
/// conv_1/kernel, conv_1/bias, conv_2/..., dense_1/..., dense_2/.... `images` are [N, 1, 28, 28] or
/// [N, 28, 28]; returns the logits [N, classes]. Needs an open graph: call it through
/// `Strategy::build`.
at::Tensor mnist_cnn(const at::Tensor& images, const MnistCnnFunctionOptions& options = {});

}  // namespace brigade::models
