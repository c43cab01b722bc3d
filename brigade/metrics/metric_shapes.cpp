#include "brigade/metrics/metric_shapes.h"

#include <ATen/ops/scalar_tensor.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::metrics::internal {

namespace {

[[noreturn]] void throw_bad_shapes(std::string_view metric, const at::Tensor& labels,
                                   const at::Tensor& predictions, std::string_view allowed) {
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat(metric, ": labels have shape ", labels.sizes(), " and predictions ",
                            predictions.sizes(), "; they must be ", allowed, "."));
}

/// Removes a last dimension of 1 from a tensor of `dims` + 1 dimensions.
at::Tensor squeezed_to(std::int64_t dims, const at::Tensor& tensor) {
  return tensor.dim() == dims + 1 && tensor.size(-1) == 1 ? tensor.squeeze(-1) : tensor;
}

}  // namespace

Pair of_same_shape(std::string_view metric, const at::Tensor& labels,
                   const at::Tensor& predictions) {
  Pair pair{squeezed_to(predictions.dim(), labels), squeezed_to(labels.dim(), predictions)};
  if (pair.labels.sizes() != pair.predictions.sizes())
    throw_bad_shapes(metric, labels, predictions, "of the same shape");
  return pair;
}

at::Tensor class_indices(std::string_view metric, const at::Tensor& labels,
                         const at::Tensor& predictions) {
  const at::Tensor indices = squeezed_to(predictions.dim() - 1, labels);
  if (predictions.dim() < 2 ||
      indices.sizes() != predictions.sizes().slice(0, predictions.dim() - 1))
    throw_bad_shapes(metric, labels, predictions, "[N] and [N, classes]");
  return indices;
}

at::Tensor weights_like(const at::Tensor& weights, const at::Tensor& values) {
  at::Tensor each = squeezed_to(values.dim(), weights.detach().to(values.device(), at::kDouble));
  while (each.dim() > 0 && each.dim() < values.dim()) each = each.unsqueeze(-1);
  bool fits = each.dim() <= values.dim();
  for (std::int64_t i = 0; fits && i < each.dim(); ++i)
    fits = each.size(i) == values.size(i) || each.size(i) == 1;
  check_argument(fits, base::str_cat("Metric: weights have shape ", weights.sizes(),
                                     " and the values ", values.sizes(),
                                     "; weights must be a scalar or have the first dimensions of "
                                     "the values."));
  return each.expand(values.sizes());
}

WeightedSum weighted_sum(const at::Tensor& values, const std::optional<at::Tensor>& weights) {
  const at::Tensor doubles = values.detach().to(at::kDouble);
  if (!weights) {
    return {doubles.sum(),
            at::scalar_tensor(static_cast<double>(doubles.numel()), doubles.options())};
  }
  const at::Tensor each = weights_like(*weights, doubles);
  return {(doubles * each).sum(), each.sum()};
}

}  // namespace brigade::metrics::internal
