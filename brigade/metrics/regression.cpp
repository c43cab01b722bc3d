#include "brigade/metrics/regression.h"

#include <cmath>

#include "brigade/metrics/metric_shapes.h"

namespace brigade::metrics {

namespace {

internal::Pair doubles(std::string_view metric, const at::Tensor& labels,
                       const at::Tensor& predictions) {
  const internal::Pair pair = internal::of_same_shape(metric, labels, predictions);
  return {pair.labels.to(at::kDouble), pair.predictions.to(at::kDouble)};
}

at::Tensor mean_per_example(const at::Tensor& errors) {
  return errors.dim() > 1 ? errors.mean(-1) : errors;
}

at::Tensor squared_errors(std::string_view metric, const at::Tensor& labels,
                          const at::Tensor& predictions) {
  const internal::Pair pair = doubles(metric, labels, predictions);
  return mean_per_example((pair.predictions - pair.labels).square());
}

at::Tensor normalized(const at::Tensor& vectors) {
  constexpr double kEpsilon = 1e-7;  // Keras's
  return vectors / vectors.square().sum(-1, /*keepdim=*/true).sqrt().clamp_min(kEpsilon);
}

}  // namespace

MeanSquaredError::MeanSquaredError(const std::string& name)
    : MeanOfExamples(name, [](const at::Tensor& labels, const at::Tensor& predictions) {
        return squared_errors("MeanSquaredError", labels, predictions);
      }) {}

RootMeanSquaredError::RootMeanSquaredError(const std::string& name)
    : MeanOfExamples(name, [](const at::Tensor& labels, const at::Tensor& predictions) {
        return squared_errors("RootMeanSquaredError", labels, predictions);
      }) {}

double RootMeanSquaredError::result() const {
  return std::sqrt(MeanOfExamples::result());
}

MeanAbsoluteError::MeanAbsoluteError(const std::string& name)
    : MeanOfExamples(name, [](const at::Tensor& labels, const at::Tensor& predictions) {
        const internal::Pair pair = doubles("MeanAbsoluteError", labels, predictions);
        return mean_per_example((pair.predictions - pair.labels).abs());
      }) {}

CosineSimilarity::CosineSimilarity(const std::string& name)
    : MeanOfExamples(name, [](const at::Tensor& labels, const at::Tensor& predictions) {
        const internal::Pair pair = doubles("CosineSimilarity", labels, predictions);
        return (normalized(pair.labels) * normalized(pair.predictions)).sum(-1);
      }) {}

}  // namespace brigade::metrics
