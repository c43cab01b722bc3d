#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brigade/models/classifier.h"
#include "brigade/variables/mode.h"
#include "brigade/variables/variable_scope.h"

namespace torch::nn {
class Conv2dImpl;
class LinearImpl;
}  // namespace torch::nn

namespace brigade::models {

/// Options of `MnistCnn`.
struct MnistCnnOptions {
  std::int64_t classes = 10;
  /// The dropout rate of the 1024 hidden values in training, in [0, 1); 0 switches dropout off.
  double dropout = 0.0;
  /// Of conv1 and conv2 (after pooling), dense1 and dense2: see `ModelOptions::end_points`.
  std::vector<std::string> end_points = {};
};

/// The convolutional network of the MNIST tutorials: conv 5x5x32, pool, conv 5x5x64, pool, dense
/// 1024, dense 10, with "same" padding and relu; 3,274,634 parameters: conv1, conv2, dense1 and
/// dense2, each with weight and bias. docs/design/mnist-cnn-speed.md explains the implementation of
/// `forward`. Supports float32 and float64 (`to(at::kDouble)`).
class MnistCnn : public Classifier {
 public:
  /// Throws `Error{kInvalidArgument}` if an option is out of range.
  explicit MnistCnn(const MnistCnnOptions& options = {});
  /// `images` are [N, 1, 28, 28] or [N, 28, 28], of the dtype of the weights.
  at::Tensor forward(const at::Tensor& images) override;

 private:
  double dropout_;
  std::vector<std::string> end_points_;
  std::shared_ptr<torch::nn::Conv2dImpl> conv1_, conv2_;
  std::shared_ptr<torch::nn::LinearImpl> dense1_, dense2_;
};

/// Options of `mnist_cnn`.
struct MnistCnnFunctionOptions {
  std::int64_t classes = 10;
  /// The dropout rate of the 1024 hidden values in training, in [0, 1).
  double dropout = 0.0;
  /// Whether values are dropped.
  variables::Mode mode = variables::Mode::kTraining;
  /// Whether the variables are created or found by their names.
  variables::Reuse reuse = variables::Reuse::kInherit;
  /// The variable scope of the layers; empty: none.
  std::string scope = {};
};

/// The convolutional network of the MNIST tutorials as a function of layers, the counterpart of
/// `MnistCnn`: the same computation and speed, with the variable names of TensorFlow's layers:
/// conv_1/kernel, conv_1/bias, conv_2/..., dense_1/..., dense_2/.... `images` are [N, 1, 28, 28] or
/// [N, 28, 28]; returns the logits [N, classes]. Needs an open graph: call it through
/// `Strategy::create`.
at::Tensor mnist_cnn(const at::Tensor& images, const MnistCnnFunctionOptions& options = {});

}  // namespace brigade::models
