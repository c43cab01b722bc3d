#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

/// Checks and broadcasts the shapes of labels, predictions and weights. For the sources of
/// `metrics` and `train` only.
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
/// the shape of `values`. Throws kInvalidArgument, with both shapes, otherwise.
at::Tensor weights_like(const at::Tensor& weights, const at::Tensor& values);

/// The weighted sum of values, and the sum of their weights.
struct WeightedSum {
  at::Tensor total, count;
};

/// Without weights, each value has weight 1.
WeightedSum weighted_sum(const at::Tensor& values, const std::optional<at::Tensor>& weights);

}  // namespace brigade::metrics::internal
