#include "brigade/metrics/confusion.h"

#include <ATen/ops/bucketize.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "brigade/metrics/metric_shapes.h"

namespace brigade::metrics::internal {

namespace {

/// [T + 1]: the sums of `weights` of the elements above exactly the first 0, 1, ..., T thresholds.
at::Tensor histogram(const at::Tensor& below, const at::Tensor& weights, std::int64_t size) {
  return at::zeros({size}, weights.options()).index_add_(0, below, weights);
}

/// [T]: the sums of weights above each threshold, from the histogram.
at::Tensor above_each(const at::Tensor& histogram) {
  return histogram.flip(0).cumsum(0).flip(0).slice(0, 1);
}

}  // namespace

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
