#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

/// Counts of true and false positives; for the sources of this folder only.
namespace brigade::metrics::internal {

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
