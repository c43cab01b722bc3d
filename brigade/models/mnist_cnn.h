#pragma once

#include <cstdint>
#include <memory>

#include "brigade/models/classifier.h"

namespace torch::nn {
class Conv2dImpl;
class LinearImpl;
}  // namespace torch::nn

namespace brigade::models {

struct MnistCnnOptions {
  std::int64_t classes = 10;
  /// The dropout rate of the 1024 hidden values in training, in [0, 1); 0 switches dropout off.
  double dropout = 0.0;
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
  std::shared_ptr<torch::nn::Conv2dImpl> conv1_, conv2_;
  std::shared_ptr<torch::nn::LinearImpl> dense1_, dense2_;
};

}  // namespace brigade::models
