#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

/// Classification losses, and the two helpers that make a loss exact over many replicas.
///
/// They all see only the examples of the calling replica. A mean here is the mean over those local
/// examples: `minimize(loss)` weights it by the local divided by the global count. Code with its
/// own scaling uses one value per example (`Reduction::kNone`) and `compute_average_loss`.
///
/// Empty batches (a replica without examples at the uneven end of an epoch) are valid: `kNone`
/// gives an empty tensor and `kSum` exactly 0, both with an autograd graph, so that backward still
/// visits every parameter. The mean of no examples is NaN; the strategies leave it out of
/// reductions and never multiply it by zero.
///
/// Every function throws `Error{kInvalidArgument}` naming the shapes it got if they do not fit,
/// and, for labels on the CPU, naming the first label that is not a class. (On other devices
/// reading the labels would stall the stream, so libtorch's own assertion reports them.)
///
/// Thread-safety: pure functions.
namespace brigade::layers::losses {

/// How the losses of the examples (elements, in `v1::losses`) are reduced. TensorFlow:
/// tf.losses.Reduction.
enum class Reduction {
  kMean,  ///< A scalar: their mean over the local batch; of weighted ones, their sum divided by the
          ///< sum of the weights.
  kNone,  ///< No reduction: one value per example, shape [N].
  kSum,   ///< A scalar: their sum.
  kSumOverBatchSize,     ///< Their sum divided by their number; without weights, as kMean.
  kSumByNonzeroWeights,  ///< Divided by the number of those whose weight is not 0; without weights,
                         ///< as kMean.
};

/// Options of the losses: how the values of the examples are combined.
struct LossOptions {
  /// Whether predictions are logits, to which the loss applies the softmax, exact even for extreme
  /// scores; or the output of a softmax, clipped to [1e-7, 1 - 1e-7] before the logarithm, as Keras
  /// does. Keras's default is false: losses from logits are faster and more precise.
  bool from_logits = true;
  /// How the losses of the examples become one value; kNone keeps them.
  Reduction reduction = Reduction::kMean;
};

/// The mean cross entropy between `logits` [N, classes] and `labels` [N] (any integral type) over
/// the local examples, a scalar. TensorFlow:
/// `reduce_mean(sparse_softmax_cross_entropy_with_logits(labels, logits))`.
at::Tensor sparse_softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& labels);

/// Cross entropy between `predictions` [N, classes] and class numbers `labels` [N] (any integral
/// type). Probabilities are clipped, then normalized to sum to 1. Keras:
/// `SparseCategoricalCrossentropy`.
at::Tensor sparse_categorical_crossentropy(const at::Tensor& predictions, const at::Tensor& labels,
                                           const LossOptions& options = {});

/// Cross entropy between `predictions` [N, classes] and a distribution over the classes per
/// example, `labels` of the same shape (one-hot, or smoothed). Probabilities are normalized to sum
/// to 1, then clipped. Keras: `CategoricalCrossentropy`.
at::Tensor categorical_crossentropy(const at::Tensor& predictions, const at::Tensor& labels,
                                    const LossOptions& options = {});

/// The sum of `per_example` (at least one dimension), each value times its `sample_weight` if given
/// (broadcast against `per_example`), divided by the number of examples in the *global* batch; 0 if
/// that number is 0. Summed over the replicas this is the mean over the global batch. Throws
/// `kInvalidArgument` for a scalar loss or a negative count. TensorFlow:
/// `tf.nn.compute_average_loss`.
at::Tensor compute_average_loss(const at::Tensor& per_example, std::int64_t global_batch_size,
                                const std::optional<at::Tensor>& sample_weight = std::nullopt);

/// `loss` divided by the number of replicas: every replica computes the same regularization loss,
/// and the sum over replicas must count it once. Throws `kInvalidArgument` unless `num_replicas` is
/// positive. TensorFlow: `tf.nn.scale_regularization_loss`.
at::Tensor scale_regularization_loss(const at::Tensor& loss, std::int64_t num_replicas);

}  // namespace brigade::layers::losses
