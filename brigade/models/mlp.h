#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brigade/models/classifier.h"

namespace torch::nn {
class LinearImpl;
}  // namespace torch::nn

namespace brigade::models {

/// Options of `Mlp`.
struct MlpOptions {
  /// The number of values per example; 784 for a 28x28 image.
  std::int64_t inputs = 784;
  /// The width of each hidden layer, in order; empty for a linear classifier.
  std::vector<std::int64_t> hidden = {64, 64, 64};
  std::int64_t classes = 10;
  /// Of dense1, dense2 and so on: see `ModelOptions::end_points`.
  std::vector<std::string> end_points = {};
};

/// A multi-layer perceptron: linear layers with relu between them. Parameters: dense1.weight,
/// dense1.bias, dense2.weight and so on, one pair for each hidden layer and one for the output.
class Mlp : public Classifier {
 public:
  /// Throws `Error{kInvalidArgument}` if a width is not positive, and for an unknown end point.
  explicit Mlp(const MlpOptions& options = {});
  /// `batch` is [N, ...] with `inputs` values per example, of the dtype of the weights.
  at::Tensor forward(const at::Tensor& batch) override;

 private:
  std::int64_t inputs_;
  std::vector<std::string> end_points_;
  std::vector<std::string> names_;  // [layer]
  std::vector<std::shared_ptr<torch::nn::LinearImpl>> layers_;
};

}  // namespace brigade::models
