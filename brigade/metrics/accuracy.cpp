#include "brigade/metrics/accuracy.h"

#include "brigade/base/error.h"
#include "brigade/metrics/metric_shapes.h"

namespace brigade::metrics {

namespace {

at::Tensor binary_matches(std::string_view metric, const at::Tensor& labels,
                          const at::Tensor& predictions, double threshold) {
  const internal::Pair pair = internal::of_same_shape(metric, labels, predictions);
  return pair.predictions.gt(threshold).to(pair.labels.scalar_type()).eq(pair.labels);
}

at::Tensor sparse_matches(std::string_view metric, const at::Tensor& labels,
                          const at::Tensor& predictions) {
  return predictions.argmax(-1).eq(internal::class_indices(metric, labels, predictions));
}

at::Tensor one_hot_labels(std::string_view metric, const at::Tensor& labels,
                          const at::Tensor& predictions) {
  const internal::Pair pair = internal::of_same_shape(metric, labels, predictions);
  return pair.labels.argmax(-1);
}

at::Tensor in_top_k(const at::Tensor& class_labels, const at::Tensor& predictions, std::int64_t k) {
  const at::Tensor target = class_labels.to(at::kLong).unsqueeze(-1);
  const at::Tensor is_class = target.ge(0).logical_and(target.lt(predictions.size(-1)));
  const at::Tensor score = predictions.gather(-1, target.clamp(0, predictions.size(-1) - 1));
  const at::Tensor above = predictions.gt(score).sum(-1);
  return above.lt(k).logical_and(predictions.isfinite().all(-1)).logical_and(is_class.squeeze(-1));
}

void check_k(std::string_view metric, std::int64_t k) {
  check_argument(k >= 1, metric, ": k is ", k, " and must be at least 1.");
}

}  // namespace

Accuracy::Accuracy(const std::string& name)
    : MeanOfExamples(name, [](const at::Tensor& labels, const at::Tensor& predictions) {
        if (predictions.dim() == 1 || predictions.size(-1) == 1)
          return binary_matches("Accuracy", labels, predictions, 0.5);
        if (labels.dim() < predictions.dim() || labels.size(-1) == 1)
          return sparse_matches("Accuracy", labels, predictions);
        return predictions.argmax(-1).eq(one_hot_labels("Accuracy", labels, predictions));
      }) {}

BinaryAccuracy::BinaryAccuracy(double threshold, const std::string& name)
    : MeanOfExamples(name, [threshold](const at::Tensor& labels, const at::Tensor& predictions) {
        return binary_matches("BinaryAccuracy", labels, predictions, threshold);
      }) {}

CategoricalAccuracy::CategoricalAccuracy(const std::string& name)
    : MeanOfExamples(name, [](const at::Tensor& labels, const at::Tensor& predictions) {
        return predictions.argmax(-1).eq(
            one_hot_labels("CategoricalAccuracy", labels, predictions));
      }) {}

SparseCategoricalAccuracy::SparseCategoricalAccuracy(const std::string& name)
    : MeanOfExamples(name, [](const at::Tensor& labels, const at::Tensor& predictions) {
        return sparse_matches("SparseCategoricalAccuracy", labels, predictions);
      }) {}

TopKCategoricalAccuracy::TopKCategoricalAccuracy(std::int64_t k, const std::string& name)
    : MeanOfExamples(name, [k](const at::Tensor& labels, const at::Tensor& predictions) {
        return in_top_k(one_hot_labels("TopKCategoricalAccuracy", labels, predictions), predictions,
                        k);
      }) {
  check_k("TopKCategoricalAccuracy", k);
}

SparseTopKCategoricalAccuracy::SparseTopKCategoricalAccuracy(std::int64_t k,
                                                             const std::string& name)
    : MeanOfExamples(name, [k](const at::Tensor& labels, const at::Tensor& predictions) {
        return in_top_k(
            internal::class_indices("SparseTopKCategoricalAccuracy", labels, predictions),
            predictions, k);
      }) {
  check_k("SparseTopKCategoricalAccuracy", k);
}

}  // namespace brigade::metrics
