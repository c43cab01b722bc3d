#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "brigade/variables/mode.h"
#include "brigade/variables/variable_scope.h"

namespace brigade::models {

struct MnistCnnFunctionOptions {
  std::int64_t classes = 10;
  /// The share of the 1024 hidden values that training drops.
  double dropout = 0.0;
  variables::Mode mode = variables::Mode::kTraining;
  variables::Reuse reuse = variables::Reuse::kInherit;
  /// A variable scope around the layers; empty: none.
  std::string scope = {};
};

/// The convolutional network of the MNIST tutorials as a function of layers, the counterpart of
/// `MnistCnn`: the same mathematics and the same speed, with variables named as TensorFlow's layers
/// name them: conv_1/kernel, conv_1/bias, conv_2/..., dense_1/..., dense_2/.... `images` [N, 1, 28,
/// 28] or [N, 28, 28]; the logits [N, classes]. Needs an open graph: call it through
/// `Strategy::build`.
at::Tensor mnist_cnn(const at::Tensor& images, const MnistCnnFunctionOptions& options = {});

}  // namespace brigade::models
