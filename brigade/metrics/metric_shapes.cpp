#include "brigade/metrics/metric_shapes.h"

#include <ATen/ops/bucketize.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "brigade/base/error.h"

namespace brigade::metrics::internal {
namespace {

[[noreturn]] void throw_bad_shapes(std::string_view metric, const at::Tensor& labels,
                                   const at::Tensor& predictions, std::string_view allowed) {
  refuse(metric, ": labels have shape ", labels.sizes(), " and predictions ", predictions.sizes(),
         "; they must be ", allowed, ".");
}

/// Removes a last dimension of 1 from a tensor of `dims` + 1 dimensions.
at::Tensor squeezed_to(std::int64_t dims, const at::Tensor& tensor) {
  return tensor.dim() == dims + 1 && tensor.size(-1) == 1 ? tensor.squeeze(-1) : tensor;
}

/// [T + 1]: the sums of `weights` of the elements above exactly the first 0, 1, ..., T thresholds.
at::Tensor histogram(const at::Tensor& below, const at::Tensor& weights, std::int64_t size) {
  return at::zeros({size}, weights.options()).index_add_(0, below, weights);
}

/// [T]: the sums of weights above each threshold, from the histogram.
at::Tensor above_each(const at::Tensor& histogram) {
  return histogram.flip(0).cumsum(0).flip(0).slice(0, 1);
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

at::Tensor weights_like(const at::Tensor& weights, const at::Tensor& values,
                        std::string_view what) {
  at::Tensor each = squeezed_to(values.dim(), weights.detach().to(values.device(), at::kDouble));
  while (each.dim() > 0 && each.dim() < values.dim()) each = each.unsqueeze(-1);
  bool fits = each.dim() <= values.dim();
  for (std::int64_t i = 0; fits && i < each.dim(); ++i)
    fits = each.size(i) == values.size(i) || each.size(i) == 1;
  check_argument(fits, what, " have shape ", weights.sizes(), " and the values ", values.sizes(),
                 "; weights must be a scalar or have the first dimensions of the values.");
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

ConfusionCounts count_confusions(std::string_view metric, const at::Tensor& labels,
                                 const at::Tensor& predictions, const at::Tensor& thresholds,
                                 const std::optional<at::Tensor>& weights) {
  const Pair pair = of_same_shape(metric, labels, predictions);
  const at::Tensor scores = pair.predictions.to(at::kFloat).reshape(-1).contiguous();
  const at::Tensor is_positive = pair.labels.ne(0).reshape(-1).to(at::kDouble);
  const at::Tensor each =
      weights ? weights_like(*weights, pair.predictions).reshape(-1) : at::ones_like(is_positive);
  const at::Tensor below = at::bucketize(scores, thresholds.to(scores.device(), at::kFloat),
                                         /*out_int32=*/false, /*right=*/false);
  const std::int64_t size = thresholds.numel() + 1;
  const at::Tensor positives = histogram(below, is_positive * each, size);
  const at::Tensor negatives = histogram(below, (1 - is_positive) * each, size);
  return {.true_positives = above_each(positives),
          .false_positives = above_each(negatives),
          .positives = positives.sum(),
          .negatives = negatives.sum()};
}

at::Tensor keep_top_k(const at::Tensor& predictions, std::int64_t k) {
  constexpr double kBelowEverything = -1e10;  // Keras's
  const auto [sorted, order] = predictions.sort(/*stable=*/true, /*dim=*/-1, /*descending=*/true);
  const std::int64_t kept = std::min(k, predictions.size(-1));
  const at::Tensor first = order.slice(-1, 0, kept);
  return at::full_like(predictions, kBelowEverything)
      .scatter(-1, first, predictions.gather(-1, first));
}

}  // namespace brigade::metrics::internal
