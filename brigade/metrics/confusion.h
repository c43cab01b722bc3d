#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

/// Counting true and false positives; for this folder's sources only.
namespace brigade::metrics::internal {

/// How many examples, by weight, were at each threshold rightly and wrongly above it, and how many
/// there were. Doubles.
struct ConfusionCounts {
  at::Tensor true_positives, false_positives;  ///< [threshold]
  at::Tensor positives, negatives;             ///< scalars
};

/// Counts each element of `predictions` against the element of `labels` beside it (0: negative,
/// anything else: positive). A prediction is positive at the thresholds that lie below it.
/// `thresholds` [T] ascending, compared in float32 as in Keras. Throws kInvalidArgument, naming
/// `metric`, for shapes that do not fit.
ConfusionCounts count_confusions(std::string_view metric, const at::Tensor& labels,
                                 const at::Tensor& predictions, const at::Tensor& thresholds,
                                 const std::optional<at::Tensor>& weights);

/// `predictions` [..., classes] with all but the k highest of each example at -1e10; of equal ones
/// the first classes stay.
at::Tensor keep_top_k(const at::Tensor& predictions, std::int64_t k);

}  // namespace brigade::metrics::internal
