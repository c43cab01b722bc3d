#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

/// Checks and broadcasts the shapes of labels, predictions and weights, and counts true and false
/// positives. For the sources of `metrics` and `train` only.
namespace brigade::metrics::internal {

/// Labels and predictions of the same shape.
struct Pair {
  at::Tensor labels, predictions;
};

/// Labels and predictions, without a last dimension of 1 that only one of them has. Throws
/// kInvalidArgument, with the metric and both shapes, if their shapes still differ.
Pair of_same_shape(std::string_view metric, const at::Tensor& labels,
                   const at::Tensor& predictions);

/// Labels that are class indices, in the shape of `predictions` [..., classes] without its last
/// dimension; they may have a last dimension of 1. Throws kInvalidArgument, with the metric and
/// both shapes, otherwise.
at::Tensor class_indices(std::string_view metric, const at::Tensor& labels,
                         const at::Tensor& predictions);

/// `weights` (scalar, or of the shape of the first dimensions of `values`) as doubles, broadcast to
/// the shape of `values`. Throws kInvalidArgument, with both shapes, otherwise; `what` says whose
/// weights they are.
at::Tensor weights_like(const at::Tensor& weights, const at::Tensor& values,
                        std::string_view what = "Metric: weights");

/// The weighted sum of values, and the sum of their weights.
struct WeightedSum {
  at::Tensor total, count;
};

/// Without weights, each value has weight 1.
WeightedSum weighted_sum(const at::Tensor& values, const std::optional<at::Tensor>& weights);

/// The weighted numbers of true and false positives at each threshold, and of all positive and
/// negative labels. Doubles.
struct ConfusionCounts {
  at::Tensor true_positives, false_positives;  ///< [threshold]
  at::Tensor positives, negatives;             ///< scalars
};

/// Compares each element of `predictions` with the element of `labels` at the same index (0:
/// negative, anything else: positive). A prediction is positive at the thresholds below it.
/// `thresholds` [T] must ascend; they are compared in float32, as in Keras. Throws
/// kInvalidArgument, naming `metric`, for shapes that do not fit.
ConfusionCounts count_confusions(std::string_view metric, const at::Tensor& labels,
                                 const at::Tensor& predictions, const at::Tensor& thresholds,
                                 const std::optional<at::Tensor>& weights);

/// `predictions` [..., classes] with all but the k highest scores of each example set to -1e10; of
/// equal scores the first classes are kept.
at::Tensor keep_top_k(const at::Tensor& predictions, std::int64_t k);

}  // namespace brigade::metrics::internal
