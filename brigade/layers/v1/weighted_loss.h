#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <variant>

namespace brigade::layers::v1::losses {

/// How the weighted losses of the elements are reduced. TensorFlow: tf.losses.Reduction.
enum class Reduction {
  kNone,                 ///< No reduction.
  kSum,                  ///< A scalar: their sum.
  kMean,                 ///< The sum, divided by the sum of the weights.
  kSumOverBatchSize,     ///< The sum, divided by the number of elements.
  kSumByNonzeroWeights,  ///< The sum, divided by the number of elements whose weight is not 0.
};

/// One weight for all losses, or a tensor that is broadcast against them: it has the same rank, and
/// each size is equal or 1.
class Weights {
 public:
  Weights(double all) : value_(all) {}
  Weights(at::Tensor each) : value_(std::move(each)) {}

  const double* all() const { return std::get_if<double>(&value_); }
  const at::Tensor* each() const { return std::get_if<at::Tensor>(&value_); }

 private:
  std::variant<double, at::Tensor> value_;
};

struct LossOptions {
  Weights weights = 1.0;
  Reduction reduction = Reduction::kSumByNonzeroWeights;
  /// Whether the loss is added to the losses of the open graph, which `get_total_loss` sums.
  bool collect = true;
  /// The name scope of the loss; default: the function's own name.
  std::string scope = {};
};

/// `losses` times the weights, reduced; 0 where the divisor is 0, thus also for an empty batch.
/// Added to the graph's losses if one is open. TensorFlow: tf.losses.compute_weighted_loss. Throws
/// kInvalidArgument, naming both shapes, for weights that do not fit.
at::Tensor compute_weighted_loss(const at::Tensor& losses, const LossOptions& options = {});

}  // namespace brigade::layers::v1::losses
