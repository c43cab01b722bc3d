#include "brigade/metrics/mean.h"

#include <ATen/core/grad_mode.h>

#include "brigade/metrics/metric_shapes.h"

namespace brigade::metrics {

namespace {

double quotient(const at::Tensor& total, const at::Tensor& count) {
  const double seen = count.item<double>();
  return seen == 0 ? 0.0 : total.item<double>() / seen;
}

}  // namespace

Mean::Mean(const std::string& name) : Metric(name, {{.name = "total"}, {.name = "count"}}) {}

void Mean::update_state(const at::Tensor& values, const std::optional<at::Tensor>& weights) const {
  const at::NoGradGuard no_grad;
  const auto [total, count] = internal::weighted_sum(values, weights);
  add(0, total);
  add(1, count);
}

double Mean::result() const {
  return quotient(sum(0), sum(1));
}

double Mean::count() const {
  return sum(1).item<double>();
}

Sum::Sum(const std::string& name) : Metric(name, {{.name = "total"}}) {}

void Sum::update_state(const at::Tensor& values, const std::optional<at::Tensor>& weights) const {
  const at::NoGradGuard no_grad;
  add(0, internal::weighted_sum(values, weights).total);
}

double Sum::result() const {
  return sum(0).item<double>();
}

MeanOfExamples::MeanOfExamples(const std::string& name, Values values)
    : PredictionMetric(name, {{.name = "total"}, {.name = "count"}}), values_(std::move(values)) {}

void MeanOfExamples::update(const at::Tensor& labels, const at::Tensor& predictions,
                            const std::optional<at::Tensor>& sample_weight) const {
  const auto [total, count] = internal::weighted_sum(values_(labels, predictions), sample_weight);
  add(0, total);
  add(1, count);
}

double MeanOfExamples::result() const {
  return quotient(sum(0), sum(1));
}

double MeanOfExamples::count() const {
  return sum(1).item<double>();
}

}  // namespace brigade::metrics
