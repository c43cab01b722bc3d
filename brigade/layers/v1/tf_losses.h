#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "brigade/layers/empty_braces.h"
#include "brigade/layers/losses.h"

/// Losses that add themselves to the open graph, so that `get_total_loss` finds them. TensorFlow:
/// tf.losses and slim.losses. Predictions come first, as in Slim. Without a graph they are plain
/// functions, as are those of `layers::losses`, which support reductions over replicas.
///
/// They all see only the calling replica's examples; `minimize(loss)` weights the mean over them by
/// example counts. They all throw kInvalidArgument, naming the shapes, for arguments that do not
/// fit.
///
/// Thread-safety: as the graph: one thread.
namespace brigade::layers::v1::losses {

using layers::losses::Reduction;

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

/// Options of every loss: weights, and how the weighted values are combined.
struct LossOptions {
  /// Factors of the losses: one number, or a tensor that broadcasts to them.
  Weights weights = 1.0;
  /// How the weighted losses become one value; kNone keeps them.
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

/// Adds a loss to those of the open graph, under the open name scope. TensorFlow:
/// tf.losses.add_loss. Throws kFailedPrecondition without a graph.
void add_loss(const at::Tensor& loss, const std::string& name = "loss");

/// The losses of this pass whose name begins with `scope`, such as "tower_0". TensorFlow:
/// tf.losses.get_losses. Throws kFailedPrecondition without a graph.
std::vector<at::Tensor> get_losses(std::string_view scope = "");

/// The regularizers' values of all variables whose name begins with `scope`, each once. In a
/// replica, of its own components. TensorFlow: tf.losses.get_regularization_losses.
std::vector<at::Tensor> get_regularization_losses(std::string_view scope = "");
/// Their sum; 0 if there are none.
at::Tensor get_regularization_loss(std::string_view scope = "");

/// Options of `get_total_loss`.
struct TotalLossOptions {
  /// Whether the sum includes the regularizers' values.
  bool add_regularization_losses = true;
  /// Selects losses whose name begins with it. Regularization losses belong to variables, which the
  /// towers share, and are counted for any scope.
  std::string scope = {};
};
/// The sum of the losses and of the regularization losses, a scalar. Every tower's total includes
/// all regularization losses; if the towers' gradients are averaged, as in the strategies, they
/// count once. Code that sums the towers must add them to one tower only. TensorFlow:
/// tf.losses.get_total_loss. Throws kFailedPrecondition if there are no losses.
at::Tensor get_total_loss(const TotalLossOptions& options = {});

/// Options of the losses with label smoothing.
/// The other fields are as in `LossOptions`.
struct SmoothedLossOptions {
  Weights weights = 1.0;
  /// The fraction of each label that is spread over all classes, from 0 to below 1.
  double label_smoothing = 0.0;
  Reduction reduction = Reduction::kSumByNonzeroWeights;
  bool collect = true;
  std::string scope = {};
};

/// Options of `log_loss`.
/// The other fields are as in `LossOptions`.
struct LogLossOptions {
  Weights weights = 1.0;
  double epsilon = 1e-7;  ///< added to the argument of the logarithm
  Reduction reduction = Reduction::kSumByNonzeroWeights;
  bool collect = true;
  std::string scope = {};
};

/// Options of `huber_loss`.
/// The other fields are as in `LossOptions`.
struct HuberLossOptions {
  Weights weights = 1.0;
  double delta = 1.0;  ///< where the loss becomes linear
  Reduction reduction = Reduction::kSumByNonzeroWeights;
  bool collect = true;
  std::string scope = {};
};

/// Cross entropy between `logits` [N, classes] and `onehot_labels` of the same shape: one-hot, or
/// any distribution, such as `input::mixup`'s. One loss per example: weights are a number or [N].
at::Tensor softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& onehot_labels,
                                 const SmoothedLossOptions& options = {});
/// The same for class numbers `labels` [N] of any integral dtype.
at::Tensor sparse_softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                        const LossOptions& options = {});
/// Cross entropy of independent classes: `multi_class_labels` has a probability for each logit.
at::Tensor sigmoid_cross_entropy(const at::Tensor& logits, const at::Tensor& multi_class_labels,
                                 const SmoothedLossOptions& options = {});
/// -labels * log(predictions + epsilon) - (1 - labels) * log(1 - predictions + epsilon).
at::Tensor log_loss(const at::Tensor& predictions, const at::Tensor& labels,
                    const LogLossOptions& options = {});
/// max(0, 1 - logits) for labels of 1, max(0, 1 + logits) for labels of 0.
at::Tensor hinge_loss(const at::Tensor& logits, const at::Tensor& labels,
                      const LossOptions& options = {});
at::Tensor absolute_difference(const at::Tensor& predictions, const at::Tensor& labels,
                               const LossOptions& options = {});
at::Tensor mean_squared_error(const at::Tensor& predictions, const at::Tensor& labels,
                              const LossOptions& options = {});
/// Half the square of errors up to `delta`, linear beyond. Call it as `losses::huber_loss`: an
/// unqualified call is ambiguous with libtorch's.
at::Tensor huber_loss(const at::Tensor& predictions, const at::Tensor& labels,
                      const HuberLossOptions& options = {});
inline at::Tensor huber_loss(const at::Tensor& predictions, const at::Tensor& labels, NoOptions) {
  return huber_loss(predictions, labels, HuberLossOptions());
}
/// 1 minus the inner product along `axis`, of vectors of length 1.
at::Tensor cosine_distance(const at::Tensor& predictions, const at::Tensor& labels,
                           std::int64_t axis, const LossOptions& options = {});
/// The mean over all pairs of elements of one example of the squared difference between the pair's
/// difference in `predictions` and in `labels`, both [N, ...]; the sum over the examples. Weights
/// are a number or [N, 1, ...]; `reduction` is not used.
at::Tensor mean_pairwise_squared_error(const at::Tensor& predictions, const at::Tensor& labels,
                                       const LossOptions& options = {});

}  // namespace brigade::layers::v1::losses
